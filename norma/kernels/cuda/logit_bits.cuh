// Logits counted in bits, not nats: log2(e) goes into a factor instead of into every exp.
#pragma once

#include "norma/kernels/cuda/pack.cuh"
#include "norma/kernels/cuda/quick_math.cuh"

namespace norma::kernels {

inline constexpr double kBitsPerNat = std::numbers::log2e;
inline constexpr float kNatsPerBit = std::numbers::ln2_v<float>;

/// From here on the last bit of z is worth 1/2 or more. Then all z are taken as they are rounded:
/// else the largest could lie far beside itself, and 2^z would overflow or vanish.
__device__ inline bool is_coarse(float z) {
  constexpr float kCoarse = 1 << 22;
  return !(fabsf(z) < kCoarse);
}
/// z − from. Where it matters the product is not rounded before the difference, so that large
/// logits that lie close together keep their distance.
__device__ inline float distance(float f, float u, float from) {
  return is_coarse(from) ? __fmul_rn(f, u) - from : fmaf(f, u, -from);
}

}  // namespace norma::kernels
