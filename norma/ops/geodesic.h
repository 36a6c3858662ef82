// Residual connections on the sphere: a step of length alpha from the stream towards the branch,
// along the chord (lerp), the great circle (slerp) or the tangent (riem), then back on the sphere.
#pragma once

#include "norma/autograd/var.h"
#include "norma/kernels/geodesic.h"

namespace norma {

using kernels::GeodesicRule;

struct GeodesicSpec {
  GeodesicRule rule = GeodesicRule::lerp;
  double alpha_mult = 1;  // alpha_init / alpha_scale
  double eps = 1e-12;     // inside the root of every norm
};

/// unit(x) = x / sqrt(|x|² + eps), 0 for x = 0;  a = unit(h), d = unit(b), α = |alpha_mult·alpha|
///   lerp   y = unit(a + α⊙(d − a))
///   slerp  y = unit((sin((1−α)θ)⊙a + sin(αθ)⊙d) / sin θ),  θ = 2·atan2(|a − d|, |a + d|)
///          sin θ < 1e-4: the series of second order near 0, the formula of lerp near π
///   riem   y = unit(a + α⊙(d − a·⟨a, d⟩))
/// h (..., C), b like h, f32|f64, rows may be strided    alpha (C) or (1)    y like h
/// saves  per row, f64: 1/|h|, 1/|b|, 1/|m|, θ or ⟨a, d⟩, and for slerp |a|² and |d|²
/// sums   f64, order fixed by C alone
/// grads  dh, db, dalpha; exact including eps. A zero row of h or b has gradient 0; the slope of
///        |·| at 0 is +1. For a fixed α pass a constant.
/// On the tape the op is called lerp, slerp or riem.
Var geodesic(Var h, Var b, Var alpha, GeodesicSpec spec = {});

}  // namespace norma
