// What pages take from the card as it is: its memory, and instructions that the compiler would not
// choose by itself. The tests have a page of this name for a host (tests/hopper).
#pragma once

#include <cstdint>

#include "norma/device/cuda/launch.cuh"

namespace norma::kernels {

/// The shared memory of a block, as much as its launch gives it.
__device__ inline unsigned char* block_memory() {
  extern __shared__ __align__(32) unsigned char memory_of_block[];
  return memory_of_block;
}
/// The same from a multiple of 1024 on, where the copy engine can shuffle it. (Attention on
/// Hopper's products declares its own: from this one the compiler would not see how much of an
/// address is known.)
__device__ inline unsigned char* tile_memory() {
  extern __shared__ __align__(1024) unsigned char memory_of_tiles[];
  return memory_of_tiles;
}
/// Where something in shared memory lies, for instructions that want to know.
__device__ inline unsigned shared_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

/// Stores at once: left to itself the compiler may take such stores apart again.
__device__ inline void store_words(void* to, uint4 words) {
  asm volatile("st.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to),
               "r"(words.x),
               "r"(words.y),
               "r"(words.z),
               "r"(words.w)
               : "memory");
}
__device__ inline void store_words(void* to, uint2 words) {
  asm volatile("st.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(words.x), "r"(words.y) : "memory");
}

/// The larger of each two of bf16, NaN only where both are.
__device__ inline unsigned larger_pair(unsigned one, unsigned other) {
  unsigned both = 0;
  asm("max.bf16x2 %0, %1, %2;\n" : "=r"(both) : "r"(one), "r"(other));
  return both;
}

/// Meets kThreads threads at a barrier of theirs, one of those from 1 on.
template <int kBarrier, int kThreads>
__device__ inline void meet_some() {
  asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(kThreads) : "memory");
}

}  // namespace norma::kernels
