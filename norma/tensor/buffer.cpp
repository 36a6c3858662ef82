#include "norma/tensor/buffer.h"

#include <cstdlib>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/device/device.h"
#include "norma/tensor/planning.h"

namespace norma {

std::size_t machine_memory() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

void FreeMemory::operator()(std::byte* memory) const {
  if (from == From::gpu) {
    device::release(memory);
  } else if (from == From::pages) {
    // What an arena has poisoned would stay so for whoever gets these addresses next. In a plan it
    // poisons nothing.
#if defined(__SANITIZE_ADDRESS__)
    if (!planning()) ASAN_UNPOISON_MEMORY_REGION(memory, mapped);
#endif
    munmap(memory, mapped);
  } else {
    std::free(memory);
  }
}

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Fresh pages at a multiple of a huge page: zero without being touched. Null when refused.
std::byte* map_pages(std::size_t bytes) {
  const std::size_t wide = bytes + kHugePage;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (planning() ? MAP_NORESERVE : 0);
  void* found = mmap(nullptr, wide, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (found == MAP_FAILED) return nullptr;
  auto* first = static_cast<std::byte*>(found);
  const std::size_t skip =
      (kHugePage - reinterpret_cast<std::uintptr_t>(first) % kHugePage) % kHugePage;
  if (skip > 0) munmap(first, skip);
  if (skip < kHugePage) munmap(first + skip + bytes, kHugePage - skip);
  return first + skip;
}

}  // namespace

Buffer::Buffer(std::size_t bytes, Device device) : bytes_(bytes), device_(device) {
  if (bytes == 0) return;
  if (device.kind == DeviceKind::cuda && !planning()) {
    memory_ = {static_cast<std::byte*>(device::allocate(bytes)),
               FreeMemory{.from = FreeMemory::From::gpu}};
    return;
  }
  if (bytes > machine_memory() && !planning()) {
    throw MemoryError(say("wanted ",
                          human_bytes(static_cast<double>(bytes)),
                          " in one buffer, but this machine has ",
                          human_bytes(static_cast<double>(machine_memory())),
                          " of memory; use a smaller model, batch or context."));
  }
  // Large buffers ask for huge pages: fewer page faults and TLB misses.
  std::byte* memory = nullptr;
  std::size_t mapped = 0;
  if (bytes >= kHugePage) {
    mapped = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    memory = map_pages(mapped);
    if (memory != nullptr) madvise(memory, mapped, MADV_HUGEPAGE);
  } else {
    memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, aligned_bytes(bytes)));
    if (memory != nullptr) std::memset(memory, 0, aligned_bytes(bytes));
  }
  if (memory == nullptr) {
    throw MemoryError(say("the system refused ",
                          human_bytes(static_cast<double>(bytes)),
                          "; use a smaller model, batch or context."));
  }
  const auto from = mapped > 0 ? FreeMemory::From::pages : FreeMemory::From::heap;
  memory_ = {memory, FreeMemory{from, mapped}};
}

OwnedTensor::OwnedTensor(Shape shape, DType dtype, Device device)
    : buffer(static_cast<std::size_t>(shape.count()) * size_of(dtype), device),
      tensor(buffer.data(), shape, dtype, device) {}

}  // namespace norma
