// The one table of numerical limits. Error of a tensor: max |got − want| / (|want| + rms(want)).
#pragma once

#include <string_view>

#include "norma/base/types.h"

namespace norma::checks {

/// Largest relative gap between a gradient in f64 and four-point differences along a random
/// direction, with a step of kStep · max|x|.
inline constexpr double kGradientGap = 1e-6;
inline constexpr double kStep = 1e-6;
/// A fused op against its composed definition, both in f64.
inline constexpr double kComposedGap = 1e-9;

/// How far the scale of a result, ⟨got, want⟩ / ⟨want, want⟩, may be from 1. An error of a whole
/// percent could hide among those that bf16 allows each element; here roundings cancel: a hundred
/// elements rounded to bf16 leave 2e-4. Judged are tensors whose scale so many elements carry, and
/// only where so many standard deviations of what roundings leave stay below the limit.
inline constexpr double kScaleTerms = 100;
inline constexpr double kScaleDeviations = 4;
constexpr double scale_limit(DType dtype) { return dtype == DType::bf16 ? 4e-3 : 1e-6; }

/// What an op's rounding errors grow with.
enum class Kind { elementwise, row_norm, geodesic, product, attention, loss, moves };

struct Limit {
  double forward;
  double gradient;
  double parameter = 0;  // of gradients that are f32 beside bf16; else these count as gradients
};

/// f32 on any device against f64 fed with the same rounded inputs.
constexpr Limit f32_limit(Kind kind) {
  switch (kind) {
    case Kind::elementwise:
      return {2e-6, 5e-6};  // libmvec's functions are good to 4 ulp
    case Kind::row_norm:
      return {1e-6, 5e-6};
    case Kind::geodesic:
      return {5e-6, 2e-5};  // four projections in a row
    case Kind::product:
      return {5e-6, 5e-6};
    case Kind::attention:
      return {5e-6, 2e-5};
    case Kind::loss:
      return {2e-6, 5e-6};
    case Kind::moves:
      return {0, 1e-6};  // values are moved, not computed; gradients may be summed
  }
  return {0, 0};
}

/// bf16 on a GPU against f64 fed with the same rounded inputs. bf16 keeps eight bits, so rounding a
/// result once costs at most 2^-8 = 3.9e-3 of the element, which is what a kernel may do that
/// computes in f32 and rounds when it stores. Gradients of parameters are never rounded: sums in
/// f32 over inputs that are exact.
constexpr Limit bf16_limit(Kind kind) {
  switch (kind) {
    case Kind::elementwise:
    case Kind::row_norm:
    case Kind::geodesic:
    case Kind::moves:  // a token kept in f32 is rounded when it joins the others
      return {4e-3, 4e-3, 2e-4};
    case Kind::product:  // a bias joins a product that has been rounded
      return {8e-3, 4e-3, 2e-4};
    case Kind::attention:
      // Tensor cores take the probabilities and their gradients in bf16: one rounding more forward,
      // and backward also those of the output, from which the row sums come. A temperature's
      // gradient sums over what was rounded.
      return {1.2e-2, 3e-2, 3e-2};
    case Kind::loss:
      // The loss itself stays f32. Its gradient is rounded, multiplied by the seed and rounded.
      return {2e-5, 1e-2, 2e-4};
  }
  return {0, 0, 0};
}

/// The limits of a type; `roundings` as in OpCheck.
constexpr Limit limit_of(Kind kind, DType dtype, int roundings) {
  if (dtype != DType::bf16) return f32_limit(kind);
  const Limit once = bf16_limit(kind);
  if (roundings == 1) return once;
  // What is summed in f32 was rounded before.
  return {once.forward * roundings, once.gradient * roundings, once.gradient * roundings};
}

}  // namespace norma::checks
