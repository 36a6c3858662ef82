// The hardware's own functions, an instruction each, good to 2e-7 but for the hyperbolic tangent;
// without .ftz there are four more for numbers below 2^-126, which here are 0.
#pragma once

#include <numbers>

namespace norma::kernels {

inline constexpr float kLog2E = std::numbers::log2e_v<float>;

__device__ inline float quick_exp2(float x) {
  float y = 0;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float quick_log2(float x) {
  float y = 0;
  asm("lg2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float quick_inverse(float x) {
  float y = 0;
  asm("rcp.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}

/// Good to 2^-11 of it.
__device__ inline float quick_tanh(float x) {
  float y = 0;
  asm("tanh.approx.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace norma::kernels
