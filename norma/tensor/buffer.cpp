#include "norma/tensor/buffer.h"

#include <cstdlib>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

#include "norma/base/error.h"
#include "norma/base/text.h"

namespace norma {

std::size_t machine_memory() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

void Buffer::Free::operator()(std::byte* memory) const { std::free(memory); }

Buffer::Buffer(std::size_t bytes, Device device) : bytes_(bytes), device_(device) {
  if (device.kind != DeviceKind::cpu) {
    throw RequestError("this build has no CUDA device; use device cpu.");
  }
  if (bytes == 0) return;
  if (bytes > machine_memory()) {
    throw MemoryError(say("wanted ",
                          human_bytes(static_cast<double>(bytes)),
                          " in one buffer, but this machine has ",
                          human_bytes(static_cast<double>(machine_memory())),
                          " of memory; use a smaller model, batch or context."));
  }
  // Large buffers ask for huge pages: fewer page faults and TLB misses.
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
  const std::size_t padded = (bytes + alignment - 1) / alignment * alignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(alignment, padded));
  if (memory == nullptr) {
    throw MemoryError(say("the system refused ",
                          human_bytes(static_cast<double>(bytes)),
                          "; use a smaller model, batch or context."));
  }
  memory_.reset(memory);
  if (alignment == kHugePage) madvise(memory, padded, MADV_HUGEPAGE);
  std::memset(memory, 0, padded);
}

OwnedTensor::OwnedTensor(Shape shape, DType dtype, Device device)
    : buffer(static_cast<std::size_t>(shape.count()) * size_of(dtype), device),
      tensor(buffer.data(), shape, dtype, device) {}

}  // namespace norma
