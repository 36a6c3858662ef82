// In place of the page of this name: the machine's memory and a few instructions.
#pragma once

#include <cstdint>

#include "norma/device/cuda/launch.cuh"

namespace norma::kernels {

inline unsigned char* block_memory() { return hopper::shared_memory(); }
inline unsigned char* tile_memory() { return hopper::shared_memory(); }
inline unsigned shared_address(const void* at) { return hopper::address_of(at); }

template <class Words>
void store_words(void* to, const Words& words) {
  std::memcpy(to, &words, sizeof words);
}
inline unsigned larger_pair(unsigned one, unsigned other) {
  const auto larger = [](unsigned a, unsigned b) {
    return std::fmax(__uint_as_float(a), __uint_as_float(b));
  };
  const float low = larger(one << 16, other << 16);
  const float high = larger(one & 0xFFFF0000U, other & 0xFFFF0000U);
  return std::bit_cast<unsigned>(low) >> 16 | (std::bit_cast<unsigned>(high) & 0xFFFF0000U);
}

template <int kBarrier, int kThreads>
void meet_some() {
  hopper::meet(kBarrier, kThreads);
}

}  // namespace norma::kernels
