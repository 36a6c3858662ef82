#include "tests/models/allocation_count.h"

#include <link.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__has_feature)
#define NORMA_COUNTS_ALLOCATIONS !__has_feature(thread_sanitizer)
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NORMA_COUNTS_ALLOCATIONS 0
#else
#define NORMA_COUNTS_ALLOCATIONS 1
#endif

namespace norma {

namespace {

constinit std::atomic<long> allocation_counter{0};  // NOLINT: malloc runs before any constructor

/// Addresses of this program's own code.
struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

Range find_own_code() {
  Range range;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        auto* found = static_cast<Range*>(out);
        // The program itself comes first.
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& header = info->dlpi_phdr[i];
          if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
          found->begin = info->dlpi_addr + header.p_vaddr;
          found->end = found->begin + header.p_memsz;
        }
        return 1;
      },
      &range);
  return range;
}

}  // namespace

void count_if_own(void* caller) {
  static const Range own = find_own_code();  // allocates nothing
  const auto at = reinterpret_cast<std::uintptr_t>(caller);
  if (at >= own.begin && at < own.end) allocation_counter.fetch_add(1, std::memory_order_relaxed);
}

AllocationCount::AllocationCount() : start_(allocation_counter.load()) {}
bool AllocationCount::works() { return NORMA_COUNTS_ALLOCATIONS; }
long AllocationCount::so_far() const { return allocation_counter.load() - start_; }

}  // namespace norma

// Sanitizers bring their own allocator; under them nothing is counted.
#if NORMA_COUNTS_ALLOCATIONS

// glibc's allocator under the names that stay when the program defines malloc itself.
extern "C" {
void* __libc_malloc(std::size_t bytes);                              // NOLINT
void* __libc_calloc(std::size_t count, std::size_t bytes);           // NOLINT
void* __libc_realloc(void* memory, std::size_t bytes);               // NOLINT
void* __libc_memalign(std::size_t alignment, std::size_t bytes);     // NOLINT

void* malloc(std::size_t bytes) {
  norma::count_if_own(__builtin_return_address(0));
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  norma::count_if_own(__builtin_return_address(0));
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  norma::count_if_own(__builtin_return_address(0));
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  norma::count_if_own(__builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
}

// operator new calls malloc from the C++ library; what counts is who called operator new.
void* operator new(std::size_t bytes) {
  norma::count_if_own(__builtin_return_address(0));
  void* memory = __libc_malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  norma::count_if_own(__builtin_return_address(0));
  void* memory = __libc_memalign(static_cast<std::size_t>(alignment), bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

#endif
