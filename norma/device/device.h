// The GPU as a place for numbers: memory, copies, and the few plain things done to whole tensors.
// Everything is queued in the order of calls on one stream; what hands a value to the host waits.
// Built with CUDA, cuda/ answers; without, no_cuda.cpp does, and says so.
#pragma once

#include <cstddef>
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

/// Queued behind what was queued before; the host's memory may be reused when the call returns.
void copy_in(void* to, const void* host, std::size_t bytes);
/// Waits.
void copy_out(void* host, const void* from, std::size_t bytes);
/// Queued. Both ends lie in device memory and do not overlap.
void copy_within(void* to, const void* from, std::size_t bytes);

/// Work that was queued once and can be queued again as a whole, without the host's share of it.
/// Everything it reads and writes must stay where it is.
class Graph {
 public:
  Graph() = default;
  ~Graph();  // NOLINT(performance-trivially-destructible): with CUDA it frees the graph
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Takes down what `work` queues instead of doing it. Nothing may be allocated or waited for.
  template <class Work>
  void capture(Work&& work) {
    begin();
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
  static void begin();
  static void abandon() noexcept;
  void end();
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
