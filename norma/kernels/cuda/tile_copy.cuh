// Hopper's copy engine: boxes of a strided matrix travel to shared memory by themselves and tell a
// barrier there how many bytes have come. A barrier counts arrivals and bytes; when both are
// complete its phase (0, 1, 0, ...) is over, and whoever waits for that phase goes on.
#pragma once

#include "norma/kernels/cuda/tile_copy_instructions.cuh"

namespace norma::kernels::tile_copy {

/// NORMA_BOUNDED_WAITS: a wait that lasts longer than a whole launch ends the launch with an error.
template <typename Over>
__device__ inline void wait_until(const Over& over) {
#ifdef NORMA_BOUNDED_WAITS
  if (over()) return;
  constexpr unsigned long long kLongest = 2'000'000'000;
  const unsigned long long begin = nanoseconds();
  while (!over()) {
    if (nanoseconds() - begin > kLongest) __trap();
  }
#else
  while (!over()) {
  }
#endif
}
template <bool kCluster = false>
__device__ inline void wait(unsigned barrier, unsigned phase) {
  wait_until([&] { return is_over<kCluster>(barrier, phase); });
}

/// A place in the ring of stages, and the phase of the stage's barriers there.
template <int kStages>
struct Place {
  int stage = 0;
  unsigned phase = 0;
  __device__ void next() {
    if (++stage < kStages) return;
    stage = 0;
    phase ^= 1U;
  }
};

}  // namespace norma::kernels::tile_copy
