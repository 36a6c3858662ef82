// The activations and their slopes on the GPU.
#pragma once

#include <type_traits>

#include "norma/kernels/activation_kind.h"
#include "norma/kernels/cuda/pack.cuh"
#include "norma/kernels/cuda/quick_math.cuh"

namespace norma::kernels {

/// Calls f(std::integral_constant<Activation, kind>{}), so that a kernel is compiled for one kind.
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

/// σ(2z) = (1 + tanh z) / 2.
__device__ inline double opened(double z) { return 1.0 / (1.0 + exp(-2.0 * z)); }
// Good to 2^-12, an eighth of what bf16 rounds beside 1, for one of the special functions where the
// exponential and a reciprocal are two: on the tiles of products they are what takes the time.
__device__ inline float opened(float z) { return fmaf(0.5f, quick_tanh(z), 0.5f); }

/// Φ(x) and exp(−x²/2), which its slope is made of.
template <class C>
struct Normal {
  C below;
  C bell;
};
__device__ inline Normal<double> normal(double x) {
  return {0.5 * erfc(-0.70710678118654752440 * x), exp(-0.5 * x * x)};
}
// Φ(−a) = exp(−a²/2)·t·p(t) with t = 1 / (1 + 0.31·a): p interpolates at the eight Chebyshev nodes
// of 0 ≤ a ≤ 13 and is good to 2e-7 of Φ(−a). Half as many instructions as erff and expf.
__device__ inline Normal<float> normal(float x) {
  const float a = fabsf(x);
  const float bell = quick_exp2(-0.72134752f * a * a);
  const float t = quick_inverse(fmaf(0.31f, a, 1.0f));
  float p = 0.036081780f;
  p = fmaf(p, t, -0.14266850f);
  p = fmaf(p, t, 0.15701127f);
  p = fmaf(p, t, -0.016789114f);
  p = fmaf(p, t, 0.11115295f);
  p = fmaf(p, t, 0.10744477f);
  p = fmaf(p, t, 0.12411346f);
  p = fmaf(p, t, 0.12365346f);
  const float beyond = bell * t * p;
  return {x < 0.0f ? beyond : 1.0f - beyond, bell};
}

template <class C>
struct Curve {
  C value;
  C slope;
};

/// An activation at x. Who reads one of the two pays for one.
template <Activation kKind, class C>
__device__ inline Curve<C> activate(C x) {
  if constexpr (kKind == Activation::gelu_erf) {
    const Normal<C> at = normal(x);
    return {x * at.below, at.below + x * at.bell * static_cast<C>(0.39894228040143267794)};
  } else if constexpr (kKind == Activation::gelu_tanh) {
    // (1 + tanh z) / 2 with 2z = x·(kLinear + kCube·x²).
    constexpr C kLinear = static_cast<C>(1.5957691216057308);
    constexpr C kCube = static_cast<C>(0.07135481627159625);
    const C square = x * x;
    const C open = opened(x * (kLinear / 2 + kCube / 2 * square));
    // Beyond ±22 the sigmoid is 0 or 1, and the slope's 0 needs to meet what is finite: in floats
    // x² is so for x of up to 4e19, x³ only of up to 1e13.
    return {x * open, open + (open - open * open) * x * (kLinear + 3 * kCube * square)};
  } else if constexpr (kKind == Activation::relu) {
    return {x < 0 ? C{0} : x, x > 0 ? C{1} : C{0}};
  } else if constexpr (kKind == Activation::relu2) {
    return {x < 0 ? C{0} : x * x, x > 0 ? 2 * x : C{0}};
  } else {
    const C open = opened(x / 2);
    return {x * open, open + x * open * (1 - open)};
  }
}

}  // namespace norma::kernels
