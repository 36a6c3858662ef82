// Activations and their slopes in f32, without branches, for loops that the compiler vectorizes.
#pragma once

#include <algorithm>
#include <type_traits>

#include "norma/kernels/activation_kind.h"
#include "norma/kernels/vec_math.h"

namespace norma::kernels {

/// Calls f(std::integral_constant<Activation, kind>{}), so that loops are compiled for one kind.
template <class F>
void with_activation(Activation kind, F&& f) {
  switch (kind) {
    case Activation::gelu_erf:
      return f(std::integral_constant<Activation, Activation::gelu_erf>{});
    case Activation::gelu_tanh:
      return f(std::integral_constant<Activation, Activation::gelu_tanh>{});
    case Activation::relu:
      return f(std::integral_constant<Activation, Activation::relu>{});
    case Activation::relu2:
      return f(std::integral_constant<Activation, Activation::relu2>{});
    case Activation::silu:
      return f(std::integral_constant<Activation, Activation::silu>{});
  }
}

// 2z of gelu_tanh is x·(kGeluLinear + kGeluCube·x²). Its form x / (1 + exp(−2z)) equals
// x·(1 + tanh z) / 2, keeps its relative accuracy for negative x, and needs the cheaper exp.
inline constexpr float kGeluLinear = 1.5957691216057308f;
inline constexpr float kGeluCube = 0.07135481627159625f;

template <Activation kKind>
inline float fast_value(float x) {
  if constexpr (kKind == Activation::gelu_erf) {
    return 0.5f * x * (1.0f + erff(x * 0.70710678f));
  } else if constexpr (kKind == Activation::gelu_tanh) {
    return x / (1.0f + expf(-x * (kGeluLinear + kGeluCube * x * x)));
  } else if constexpr (kKind == Activation::relu) {
    return x < 0.0f ? 0.0f : x;
  } else if constexpr (kKind == Activation::relu2) {
    return x < 0.0f ? 0.0f : x * x;
  } else {
    return x / (1.0f + expf(-x));
  }
}

template <Activation kKind>
inline float fast_slope(float x) {
  if constexpr (kKind == Activation::gelu_erf) {
    return 0.5f * (1.0f + erff(x * 0.70710678f)) + x * expf(-0.5f * x * x) * 0.39894228f;
  } else if constexpr (kKind == Activation::gelu_tanh) {
    const float sigmoid = 1.0f / (1.0f + expf(-x * (kGeluLinear + kGeluCube * x * x)));
    // Beyond ±16 the sigmoid is 0 or 1 and the last product is 0 times something; x² could be
    // infinite there, so it is kept finite.
    const float near = std::min(std::max(x, -16.0f), 16.0f);
    return sigmoid +
           sigmoid * (1.0f - sigmoid) * near * (kGeluLinear + 3.0f * kGeluCube * near * near);
  } else if constexpr (kKind == Activation::relu) {
    return x > 0.0f ? 1.0f : 0.0f;
  } else if constexpr (kKind == Activation::relu2) {
    return x > 0.0f ? 2.0f * x : 0.0f;
  } else {
    const float sigmoid = 1.0f / (1.0f + expf(-x));
    return sigmoid * (1.0f + x * (1.0f - sigmoid));
  }
}

}  // namespace norma::kernels
