// Memory with an owner. Parameters, gradients and optimizer states are one Buffer each.
#pragma once

#include <cstddef>
#include <memory>

#include "norma/base/types.h"
#include "norma/tensor/tensor.h"

namespace norma {

/// Every allocation starts on a cache line, so that rows of any tensor can be read with full
/// vectors.
inline constexpr std::size_t kAlignment = 64;

constexpr std::size_t aligned_bytes(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

struct FreeMemory {
  enum class From : std::uint8_t { heap, pages, gpu };
  From from = From::heap;
  std::size_t mapped = 0;  // bytes of pages
  void operator()(std::byte* memory) const;
};

/// Zero-filled, aligned memory on one device. Throws MemoryError with a sentence when the machine
/// does not have that much (unless planning, see planning.h).
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes, Device device = {});

  std::byte* data() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

 private:
  std::unique_ptr<std::byte, FreeMemory> memory_;
  std::size_t bytes_ = 0;
  Device device_;
};

/// A tensor together with the memory it lies in.
struct OwnedTensor {
  OwnedTensor() = default;
  OwnedTensor(Shape shape, DType dtype, Device device = {});
  Buffer buffer;
  Tensor tensor;
};

/// Physical memory of this machine in bytes.
std::size_t machine_memory();

}  // namespace norma
