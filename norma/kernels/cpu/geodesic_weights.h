// What the stream and the branch are multiplied with in a geodesic step, m = p⊙a + q⊙b̂: p and q at
// a column and their slopes, for every kind of row.
#pragma once

#include <cmath>

#include "norma/kernels/geodesic.h"
#include "norma/kernels/vec_math.h"

namespace norma::kernels {

// Where slerp leaves its formula: for the series near 0, for lerp near π.
inline bool short_arc(double theta) { return std::sin(theta) < kSmallSine && theta < 1; }
inline bool near_pi(double theta) { return std::sin(theta) < kSmallSine && theta > 1; }

/// lerp (kappa 1) and riem (kappa = ⟨a,b̂⟩, whose own gradient counts): m = a + α⊙(b̂ − kappa·a).
template <bool kTurns>
struct Chord {
  static constexpr bool kHasTurn = kTurns;
  const double* alpha;
  double kappa;
  double p(Index c) const { return 1 - alpha[c] * kappa; }
  double q(Index c) const { return alpha[c]; }
  double p_alpha(Index) const { return -kappa; }
  double q_alpha(Index) const { return 1; }
  double p_turn(Index c) const { return -alpha[c]; }
  double q_turn(Index) const { return 0; }
};

/// slerp at small angles, to second order.
struct ShortArc {
  static constexpr bool kHasTurn = true;
  const double* alpha;
  double theta;
  double w;  // θ²/6
  double p(Index c) const { return weight(1 - alpha[c]); }
  double q(Index c) const { return weight(alpha[c]); }
  double p_alpha(Index c) const { return -slope(1 - alpha[c]); }
  double q_alpha(Index c) const { return slope(alpha[c]); }
  double p_turn(Index c) const { return bend(1 - alpha[c]); }
  double q_turn(Index c) const { return bend(alpha[c]); }

  double weight(double x) const { return x * (1 + w * (1 - x * x)); }
  double slope(double x) const { return 1 + w * (1 - 3 * x * x); }
  double bend(double x) const { return x * (1 - x * x) * theta / 3; }
};

/// slerp with p and q at hand; with cos(αθ) = p + q·cosθ and cos((1−α)θ) = q + p·cosθ their slopes
/// need no further trigonometry.
struct Arc {
  static constexpr bool kHasTurn = true;
  const double* alpha;
  const double* weight_p;
  const double* weight_q;
  double cosine;
  double inv_sine;
  double ratio;  // θ/sinθ
  double p(Index c) const { return weight_p[c]; }
  double q(Index c) const { return weight_q[c]; }
  double p_alpha(Index c) const { return -ratio * (weight_q[c] + weight_p[c] * cosine); }
  double q_alpha(Index c) const { return ratio * (weight_p[c] + weight_q[c] * cosine); }
  double p_turn(Index c) const {
    return ((1 - alpha[c]) * weight_q[c] - alpha[c] * weight_p[c] * cosine) * inv_sine;
  }
  double q_turn(Index c) const {
    return (alpha[c] * weight_p[c] - (1 - alpha[c]) * weight_q[c] * cosine) * inv_sine;
  }
};

/// p and q of n columns on the arc. Sines and cosines have loops of their own: together the
/// compiler would merge them into one function that has no vector version.
inline void arc_weights(const double* __restrict alpha,
                        Index n,
                        double theta,
                        double* __restrict p,
                        double* __restrict q) {
  const double inv_sine = 1 / std::sin(theta);
  const double cosine = std::cos(theta);
  for (Index c = 0; c < n; ++c) q[c] = sin(alpha[c] * theta);
  for (Index c = 0; c < n; ++c) p[c] = cos(alpha[c] * theta);
  for (Index c = 0; c < n; ++c) {
    q[c] *= inv_sine;
    p[c] -= cosine * q[c];
  }
}

}  // namespace norma::kernels
