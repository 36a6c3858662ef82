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
/// The first or the second of two bf16.
inline float half_of(unsigned both, int e) {
  return __uint_as_float(e == 0 ? both << 16 : both & 0xFFFF0000U);
}
inline unsigned larger_pair(unsigned one, unsigned other) {
  const float low = std::fmax(half_of(one, 0), half_of(other, 0));
  const float high = std::fmax(half_of(one, 1), half_of(other, 1));
  return std::bit_cast<unsigned>(low) >> 16 | (std::bit_cast<unsigned>(high) & 0xFFFF0000U);
}

template <int kBarrier, int kThreads>
void meet_some() {
  hopper::meet(kBarrier, kThreads);
}

}  // namespace norma::kernels
