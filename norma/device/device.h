// The GPU as a place for numbers: memory, copies, and the few plain things done to whole tensors.
// Everything is queued in the order of calls on one stream; what hands a value to the host waits.
// Built with CUDA, cuda/ answers; without, no_cuda.cpp does, and says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "norma/base/types.h"

namespace norma::device {

/// Whether this build has kernels for a GPU; CMake knows.
inline constexpr bool kBuiltWithCuda = NORMA_BUILT_WITH_CUDA;

/// What matrix products keep beside what they multiply, one after the other. The library's want 32
/// MiB at most; our own keep parts of tiles, two of 256 x 256 f32 for each pair of an H200's 132
/// multiprocessors.
inline constexpr std::size_t kProductWorkspaceBytes = std::size_t{33} << 20;

/// Whether there is a GPU that this build can use.
bool available();

struct Info {
  std::string name;
  std::size_t total_bytes = 0;
  std::size_t free_bytes = 0;
  int multiprocessors = 0;
  std::string driver;  // the newest CUDA that it knows: "13.0"
  std::size_t taken_bytes() const { return total_bytes - free_bytes; }
};
/// Throws RequestError with the reason where there is none.
Info info();

/// Whether the kernels that it runs are those for Hopper.
bool runs_hopper_kernels();

/// Zero-filled memory. Throws MemoryError that says how much was wanted and how much is free.
void* allocate(std::size_t bytes);
void release(void* memory) noexcept;

/// Waits until everything queued is done; throws what went wrong there.
void synchronize();

/// Queued behind what was queued before; the host's memory may be reused when the call returns. Up
/// to kMostStaged bytes travel while the GPU is at work on what was queued before, and only their
/// last step, from one place of its memory to another, waits for its turn.
inline constexpr std::size_t kMostStaged = std::size_t{32} << 20;
void copy_in(void* to, const void* host, std::size_t bytes);
/// Waits.
void copy_out(void* host, const void* from, std::size_t bytes);
/// Queued. Both ends lie in device memory and do not overlap.
void copy_within(void* to, const void* from, std::size_t bytes);

/// What lies in device memory when its turn comes, for the host to read later: copy_out() in two
/// halves, so that more can be queued between them.
class Readout {
 public:
  explicit Readout(std::size_t bytes);
  ~Readout();  // NOLINT(performance-trivially-destructible): with CUDA it frees memory
  Readout(const Readout&) = delete;
  Readout& operator=(const Readout&) = delete;

  /// Queued: `bytes` bytes to place `at`.
  void take(std::size_t at, const void* from, std::size_t bytes);
  /// Waits for what was taken, and for nothing that was queued behind it.
  std::byte* wait() const;

 private:
  // Memory that the GPU reaches, and an event; the page without CUDA has none.
  [[maybe_unused]] std::byte* memory_ = nullptr;
  [[maybe_unused]] void* taken_ = nullptr;
};

/// Work that was queued once and can be queued again as a whole, without the host's share of it.
/// Everything it reads and writes must stay where it is.
class Graph {
 public:
  Graph() = default;
  ~Graph();  // NOLINT(performance-trivially-destructible): with CUDA it frees the graph
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Takes down what `work` queues instead of doing it. Nothing may be allocated or waited for.
  /// `unless`: a number in device memory; where it is not 0 when a launch's turn comes, the launch
  /// does nothing.
  template <class Work>
  void capture(Work&& work, const std::int32_t* unless = nullptr) {
    begin(unless);
    try {
      work();
    } catch (...) {
      abandon();
      throw;
    }
    end();
  }
  bool captured() const { return executable_ != nullptr; }
  void launch() const;
  void clear() noexcept;

 private:
  void begin(const std::int32_t* unless);
  void abandon() noexcept;
  void end();
  void* graph_ = nullptr;  // what the executable was made from
  void* executable_ = nullptr;
};

/// Rows of elements in device memory, `stride` elements apart.
struct Matrix {
  void* data = nullptr;
  DType dtype = DType::f32;
  Index rows = 0;
  Index cols = 0;
  Index stride = 0;
};
void fill(const Matrix& to, double value);
/// to = from, or to += from·factor. Types may differ.
void put(const Matrix& from, const Matrix& to);
void add_scaled(const Matrix& from, double factor, const Matrix& to);
void scale(const Matrix& to, double factor);
/// Waits.
bool all_finite(const Matrix& matrix);

}  // namespace norma::device
