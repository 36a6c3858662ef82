// The one table of numerical limits. Error of a tensor: max |got − want| / (|want| + rms(want)).
#pragma once

#include <string_view>

namespace norma::checks {

/// Largest relative gap between a gradient in f64 and four-point differences along a random
/// direction, with a step of kStep · max|x|.
inline constexpr double kGradientGap = 1e-6;
inline constexpr double kStep = 1e-6;
/// A fused op against its composed definition, both in f64.
inline constexpr double kComposedGap = 1e-9;

/// What an op's rounding errors grow with.
enum class Kind { elementwise, row_norm, geodesic, product, attention, loss, moves };

struct Limit {
  double forward;
  double gradient;
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

}  // namespace norma::checks
