// Counts heap allocations made by this program's own code (Norma is linked into it), not those
// inside shared libraries such as oneDNN and the OpenMP runtime.
#pragma once

namespace norma {

/// Called by malloc and operator new with the address they return to.
void count_if_own(void* caller);

class AllocationCount {
 public:
  AllocationCount();
  /// False under sanitizers, which bring their own allocator.
  static bool works();
  long so_far() const;

 private:
  long start_;
};

}  // namespace norma
