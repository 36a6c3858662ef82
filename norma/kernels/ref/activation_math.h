// The definitions of the activations and their slopes, one value at a time.
#pragma once

#include <cmath>

#include "norma/kernels/activation_kind.h"

namespace norma::kernels {

inline constexpr double kSqrtHalf = 0.70710678118654752440;
inline constexpr double kInvSqrtTwoPi = 0.39894228040143267794;
inline constexpr double kGeluScale = 0.79788456080286535588;  // √(2/π)
inline constexpr double kGeluCubic = 0.044715;

template <class T>
T activation_value(Activation kind, T x) {
  switch (kind) {
    case Activation::gelu_erf:
      return x * (1 + std::erf(x * static_cast<T>(kSqrtHalf))) / 2;
    case Activation::gelu_tanh: {
      const T z = static_cast<T>(kGeluScale) * (x + static_cast<T>(kGeluCubic) * x * x * x);
      return x * (1 + std::tanh(z)) / 2;
    }
    case Activation::relu:
      return x < 0 ? T{0} : x;  // not x > 0 ? x : 0, which would hide a NaN
    case Activation::relu2:
      return x < 0 ? T{0} : x * x;
    case Activation::silu:
      return x / (1 + std::exp(-x));
  }
  return x;
}

template <class T>
T activation_slope(Activation kind, T x) {
  switch (kind) {
    case Activation::gelu_erf:
      return (1 + std::erf(x * static_cast<T>(kSqrtHalf))) / 2 +
             x * std::exp(-x * x / 2) * static_cast<T>(kInvSqrtTwoPi);
    case Activation::gelu_tanh: {
      const auto scale = static_cast<T>(kGeluScale);
      const auto cubic = static_cast<T>(kGeluCubic);
      const T tanh_z = std::tanh(scale * (x + cubic * x * x * x));
      const T bend = 1 - tanh_z * tanh_z;
      // Far out the bend is zero and the slope of z may be infinite.
      const T turn = bend == 0 ? T{0} : x * bend * scale * (1 + 3 * cubic * x * x);
      return (1 + tanh_z + turn) / 2;
    }
    case Activation::relu:
      return x > 0 ? T{1} : T{0};
    case Activation::relu2:
      return x > 0 ? 2 * x : T{0};
    case Activation::silu: {
      const T sigmoid = 1 / (1 + std::exp(-x));
      return sigmoid * (1 + x * (1 - sigmoid));
    }
  }
  return T{1};
}

}  // namespace norma::kernels
