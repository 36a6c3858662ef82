// What AddressSanitizer is told by the fuzz programs themselves, wherever they run: no stacks of
// allocations and a small quarantine, because its usual 256 MB push everything out of the caches.

// The name is AddressSanitizer's.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" const char* __asan_default_options() {
  return "malloc_context_size=1:quarantine_size_mb=8";
}
