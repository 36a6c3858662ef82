// The path of a geodesic step in one row: which point of it a column reaches, and how that changes.
// Stream and branch have been scaled to length one, a and d.
#pragma once

#include "norma/kernels/cuda/row_team.cuh"
#include "norma/kernels/geodesic.h"

namespace norma::kernels {

inline constexpr double kPi = 3.14159265358979323846;

/// 1/√(square + eps), 0 for a zero row. In double whatever the row: it happens once in a row, and
/// its error would be that of every d − a.
__device__ inline double inverse_norm(double square, double eps) {
  return square == 0 ? 0 : rsqrt(square + eps);
}

/// The angle 2·atan2(√apart, √joint) between two rows with |a − d|² and |a + d|². An obtuse one is
/// found by what it lacks to π, so that float does not lose the digits of its sine.
template <class C>
__device__ double angle_of(C apart, C joint) {
  const bool obtuse = apart > joint;
  const C more = obtuse ? apart : joint;
  const C less = obtuse ? joint : apart;
  const double acute = more == 0 ? 0 : static_cast<double>(2 * atan(sqrt(less / more)));
  return obtuse ? kPi - acute : acute;
}

// sincospif needs no reduction of large angles; the error it brings is that of the product.
__device__ inline void sin_cos_of_row(float x, float& sine, float& cosine) {
  sincospif(x * static_cast<float>(1 / kPi), &sine, &cosine);
}
__device__ inline void sin_cos_of_row(double x, double& sine, double& cosine) {
  sincos(x, &sine, &cosine);
}
// Good to 5e-7 of the largest for angles of a few π: they weigh two directions of length one, and
// what they make is rounded to bf16.
__device__ inline void sin_cos(float x, float& sine, float& cosine) {
  __sincosf(x, &sine, &cosine);
}
__device__ inline void sin_cos(double x, double& sine, double& cosine) {
  sincos(x, &sine, &cosine);
}

/// m = p·a + q·d at one column. Directions of a row: a, and z, which is d or the tangent e
/// (Path::framed).
template <class C>
struct PathPoint {
  C m;
  C p;
  C q;
  C by_alpha;  // in units of Path::pace
  C parts[3];  // m along z, and what makes up the slope in turn (Path::whole)
};

/// m = a + α·(d − kappa·a): lerp with kappa 1, riem with kappa ⟨a, d⟩, which turns with the row.
template <class C>
__device__ PathPoint<C> chord_point(C kappa, bool turns, C alpha, C a, C d) {
  const C tangent = d - kappa * a;
  return {.m = a + alpha * tangent,
          .p = 1 - alpha * kappa,
          .q = alpha,
          .by_alpha = tangent,
          .parts = {alpha * d, turns ? -alpha * a : C{0}, C{0}}};
}

/// slerp to second order in θ. The slope is written with d − a, which is small beside a.
template <class C>
__device__ PathPoint<C> short_point(C theta, C alpha, C a, C d) {
  constexpr C kThird = C{1} / 3;
  const C w = theta * theta * (kThird / 2);
  const C rest = 1 - alpha;
  const C bend_a = rest * (1 - rest * rest);
  const C bend_d = alpha * (1 - alpha * alpha);
  const C p = rest + w * bend_a;
  const C q = alpha + w * bend_d;
  return {.m = p * a + q * d,
          .p = p,
          .q = q,
          .by_alpha = (1 + w * (1 - 3 * alpha * alpha)) * (d - a) + 3 * w * (rest - alpha) * a,
          .parts = {q * d, theta * kThird * (bend_a * a + bend_d * d), C{0}}};
}

template <GeodesicRule kRule, class C>
struct Path {
  static constexpr bool kTurns = kRule != GeodesicRule::lerp;
  static constexpr bool kArc = kRule == GeodesicRule::slerp;
  static constexpr int kSums = kArc ? 4 : kTurns ? 3 : 2;  // m, and its parts that are not 0

  C turn;  // θ for slerp, ⟨a, d⟩ for riem
  C sine = 0;
  C cosine = 1;
  C inv_sine = 0;
  bool close = false;  // slerp near 0
  // z is stretch·d − tilt·a. On an arc that is the unit tangent e towards d, which stays of length
  // one where d is near −a and quotients by the sine grow. Else it is d.
  bool framed = false;
  C tilt = 0;
  C stretch = 1;
  C pace = 1;

  __device__ explicit Path(double of_row) : turn(static_cast<C>(of_row)) {
    if constexpr (kArc) {
      // The quotients of an arc lose digits by the sine's size, so float leaves them earlier.
      constexpr C kClose = static_cast<C>(sizeof(C) == 4 ? 0.03 : kSmallSine);
      const bool obtuse = of_row > kPi / 2;
      sin_cos_of_row(static_cast<C>(obtuse ? kPi - of_row : of_row), sine, cosine);
      if (obtuse) cosine = -cosine;
      inv_sine = 1 / sine;
      close = sine < kClose && !obtuse;
      const bool opposite = sine < static_cast<C>(kSmallSine) && obtuse;
      framed = !close && !opposite;
      if (!framed) return;
      tilt = cosine * inv_sine;
      stretch = inv_sine;
      pace = turn;
    }
  }

  /// f(std::true_type{}) for a row on the path its rule is named after, f(std::false_type{}) near
  /// the ends of an arc. Loops are compiled for one of them each: where the cases meet in a loop,
  /// registers run out.
  template <class F>
  __device__ void with_case(F&& f) const {
    if (kArc && !framed) {
      f(std::false_type{});
    } else {
      f(std::true_type{});
    }
  }
  /// z at a column, where the branch is b = d / inv_b; inv_b_stretch is their product.
  __device__ C other_direction(C a, C b, C inv_b_stretch) const {
    return kArc ? inv_b_stretch * b - tilt * a : inv_b_stretch * b;
  }
  template <bool kUsual>
  __device__ PathPoint<C> point(C alpha, C a, C z) const {
    if constexpr (kRule == GeodesicRule::lerp) return chord_point(C{1}, false, alpha, a, z);
    if constexpr (kRule == GeodesicRule::riem) return chord_point(turn, true, alpha, a, z);
    if constexpr (kUsual) return arc_point(alpha, a, z);
    return close ? short_point(turn, alpha, a, z) : chord_point(C{1}, false, alpha, a, z);
  }
  /// From ⟨v, m⟩ and ⟨v, parts⟩: ⟨v, p·a⟩, ⟨v, q·d⟩, and v times the slope in turn.
  __device__ void whole(const C (&sums)[kSums], C& pa, C& qd, C& slope) const {
    pa = sums[0] - sums[1];
    qd = sums[1];
    slope = 0;
    if constexpr (kTurns) slope = sums[2];
    if constexpr (kArc) {  // without a frame tilt and the last sum are 0
      pa -= tilt * sums[2];
      qd += tilt * sums[2];
      slope += sums[3] - tilt * sums[1];
    }
  }

 private:
  /// m = cos(αθ)·a + sin(αθ)·e.
  __device__ PathPoint<C> arc_point(C alpha, C a, C e) const {
    C s;
    C c;
    sin_cos(alpha * turn, s, c);
    const C along_e = s * e;
    const C aside = s * a;
    const C ahead = c * e - aside;
    return {.m = c * a + along_e,
            .p = c - tilt * s,
            .q = s * inv_sine,
            .by_alpha = ahead,
            .parts = {along_e, aside, alpha * ahead}};
  }
};

/// α = |mult·alpha| of N columns.
template <int N, class C>
__device__ inline void read_steps(const float* alpha, Index count, double mult, int c, C (&to)[N]) {
  if (count == 1) {
    const C one = static_cast<C>(__ldg(alpha));
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = one;
  } else {
    read_row(alpha + c, to);
  }
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = fabs(static_cast<C>(mult) * to[i]);
}

/// f(std::integral_constant<GeodesicRule, rule>{})
template <class F>
void with_rule(GeodesicRule rule, F&& f) {
  switch (rule) {
    case GeodesicRule::lerp:
      return f(std::integral_constant<GeodesicRule, GeodesicRule::lerp>{});
    case GeodesicRule::slerp:
      return f(std::integral_constant<GeodesicRule, GeodesicRule::slerp>{});
    case GeodesicRule::riem:
      return f(std::integral_constant<GeodesicRule, GeodesicRule::riem>{});
  }
}

}  // namespace norma::kernels
