#include "tests/support/heap_count.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include <dlfcn.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NORMA_HEAP_IS_TAKEN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define NORMA_HEAP_IS_TAKEN
#endif
#endif

namespace norma::test {

namespace {

struct Counter {
  std::atomic<bool> on{false};
  std::atomic<Index> calls{0};
};

Counter& counter() {
  static constinit Counter counter;
  return counter;
}

}  // namespace

HeapCount::HeapCount() {
  counter().calls = 0;
  counter().on = true;
}
HeapCount::~HeapCount() { counter().on = false; }
Index HeapCount::calls() const { return counter().calls; }

#if defined(NORMA_HEAP_IS_TAKEN)

bool HeapCount::possible() { return false; }

}  // namespace norma::test

#else

bool HeapCount::possible() { return true; }

namespace {

/// Counts one call, unless the code at `caller` belongs to a library that is not Norma's business.
void count_call(const void* caller) {
  if (!counter().on) return;
  Dl_info where{};
  if (dladdr(caller, &where) != 0 && where.dli_fname != nullptr) {
    for (const char* library : {"libgomp", "libomp", "libdnnl", "libcuda"}) {
      if (std::strstr(where.dli_fname, library) != nullptr) return;
    }
  }
  ++counter().calls;
}

}  // namespace

}  // namespace norma::test

// What follows replaces the C library's entry points in this program; memory still comes from it,
// so that free() needs no replacement.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* block, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) noexcept {
  norma::test::count_call(__builtin_return_address(0));
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  norma::test::count_call(__builtin_return_address(0));
  return __libc_calloc(count, bytes);
}
void* realloc(void* block, std::size_t bytes) noexcept {
  norma::test::count_call(__builtin_return_address(0));
  return __libc_realloc(block, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  norma::test::count_call(__builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

// operator new is replaced too, because its caller, not libstdc++, decides whether a call counts.
void* operator new(std::size_t bytes) {
  norma::test::count_call(__builtin_return_address(0));
  if (void* block = __libc_malloc(bytes == 0 ? 1 : bytes)) return block;
  throw std::bad_alloc();
}
void* operator new[](std::size_t bytes) {
  norma::test::count_call(__builtin_return_address(0));
  if (void* block = __libc_malloc(bytes == 0 ? 1 : bytes)) return block;
  throw std::bad_alloc();
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t) noexcept { std::free(block); }

#endif
