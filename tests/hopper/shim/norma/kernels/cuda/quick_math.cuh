// In place of the page of this name, on the host.
#pragma once

#include <cmath>
#include <numbers>

namespace norma::kernels {

inline constexpr float kLog2E = std::numbers::log2e_v<float>;

inline float quick_exp2(float x) { return std::exp2(x); }
inline float quick_log2(float x) { return std::log2(x); }
inline float quick_inverse(float x) { return 1 / x; }
inline float quick_tanh(float x) { return std::tanh(x); }

}  // namespace norma::kernels
