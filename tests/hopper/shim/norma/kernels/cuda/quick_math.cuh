// In place of the page of this name, on the host.
#pragma once

#include <cmath>
#include <numbers>

namespace norma::kernels {

inline constexpr float kLog2E = std::numbers::log2e_v<float>;

inline float quick_exp2(float x) { return std::exp2(x); }

}  // namespace norma::kernels
