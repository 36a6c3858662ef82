#include "norma/kernels/geodesic.h"

#include <cmath>

namespace norma::kernels {

namespace {

/// m = p⊙a + q⊙b̂ for one column, and how p and q change with alpha and with the row's turn.
template <class T>
struct Weights {
  T p, q;
  T p_alpha, q_alpha;
  T p_turn, q_turn;
};

template <class T>
Weights<T> weights(GeodesicRule rule, T alpha, T turn) {
  const T rest = 1 - alpha;
  if (rule == GeodesicRule::riem) return {1 - alpha * turn, alpha, -turn, 1, -alpha, 0};
  const T s = std::sin(turn);
  if (rule == GeodesicRule::slerp && s >= static_cast<T>(kSmallSine)) {
    const T c = std::cos(turn);
    return {std::sin(rest * turn) / s,
            std::sin(alpha * turn) / s,
            -turn * std::cos(rest * turn) / s,
            turn * std::cos(alpha * turn) / s,
            (rest * std::cos(rest * turn) * s - std::sin(rest * turn) * c) / (s * s),
            (alpha * std::cos(alpha * turn) * s - std::sin(alpha * turn) * c) / (s * s)};
  }
  if (rule == GeodesicRule::slerp && turn < 1) {
    const T w = turn * turn / 6;
    return {rest * (1 + w * (1 - rest * rest)),
            alpha * (1 + w * (1 - alpha * alpha)),
            -(1 + w * (1 - 3 * rest * rest)),
            1 + w * (1 - 3 * alpha * alpha),
            rest * (1 - rest * rest) * turn / 3,
            alpha * (1 - alpha * alpha) * turn / 3};
  }
  return {rest, alpha, -1, 1, 0, 0};
}

template <class T>
T inverse_norm(T square, double eps) {
  return square == 0 ? T{0} : 1 / std::sqrt(square + static_cast<T>(eps));
}

/// One row as the formulas see it.
template <class T>
struct Row {
  const T* h;
  const T* b;
  const T* alpha;
  Index alpha_count;
  T mult;
  T inv_h, inv_b, turn;
  GeodesicRule rule;

  T a(Index c) const { return h[c] * inv_h; }
  T d(Index c) const { return b[c] * inv_b; }
  T raw(Index c) const { return mult * alpha[alpha_count == 1 ? 0 : c]; }
  Weights<T> at(Index c) const { return weights(rule, std::abs(raw(c)), turn); }
  T m(Index c) const {
    const Weights<T> w = at(c);
    return w.p * a(c) + w.q * d(c);
  }
};

template <class T, class Args>
Row<T> row_of(const Args& args, Index r, const GeodesicRow& stats) {
  return {args.h.row(r),
          args.b.row(r),
          args.alpha,
          args.alpha_count,
          static_cast<T>(args.alpha_mult),
          static_cast<T>(stats.inv_h),
          static_cast<T>(stats.inv_b),
          static_cast<T>(stats.turn),
          args.rule};
}

template <class T>
void put_into(T& slot, T value, Into into) {
  slot = into == Into::add ? slot + value : value;
}

}  // namespace

template <class T>
void run(Ref, const GeodesicForward<T>& args) {
  const Index cols = args.h.cols;
  for (Index r = 0; r < args.h.rows; ++r) {
    T hh = 0;
    T bb = 0;
    for (Index c = 0; c < cols; ++c) {
      hh += args.h(r, c) * args.h(r, c);
      bb += args.b(r, c) * args.b(r, c);
    }
    GeodesicRow& stats = args.stats[r];
    stats = {.inv_h = inverse_norm(hh, args.eps), .inv_b = inverse_norm(bb, args.eps)};
    stats.aa = hh * stats.inv_h * stats.inv_h;
    stats.dd = bb * stats.inv_b * stats.inv_b;
    Row<T> row = row_of<T>(args, r, stats);
    T apart = 0;
    T joint = 0;
    T dot = 0;
    for (Index c = 0; c < cols; ++c) {
      apart += (row.a(c) - row.d(c)) * (row.a(c) - row.d(c));
      joint += (row.a(c) + row.d(c)) * (row.a(c) + row.d(c));
      dot += row.a(c) * row.d(c);
    }
    if (args.rule == GeodesicRule::slerp) {
      row.turn = 2 * std::atan2(std::sqrt(apart), std::sqrt(joint));
    }
    if (args.rule == GeodesicRule::riem) row.turn = dot;
    T mm = 0;
    for (Index c = 0; c < cols; ++c) mm += row.m(c) * row.m(c);
    const T inv_m = inverse_norm(mm, args.eps);
    for (Index c = 0; c < cols; ++c) args.y(r, c) = row.m(c) * inv_m;
    stats.turn = row.turn;
    stats.inv_m = inv_m;
  }
}

template <class T>
void run(Ref, const GeodesicBackward<T>& args) {
  const Index cols = args.h.cols;
  if (args.dalpha != nullptr && args.dalpha_into == Into::set) {
    for (Index i = 0; i < args.alpha_count; ++i) args.dalpha[i] = 0;
  }
  for (Index r = 0; r < args.h.rows; ++r) {
    const Row<T> row = row_of<T>(args, r, args.stats[r]);
    const T inv_m = static_cast<T>(args.stats[r].inv_m);
    const T aa = static_cast<T>(args.stats[r].aa);
    const T dd = static_cast<T>(args.stats[r].dd);
    T ydy = 0;
    for (Index c = 0; c < cols; ++c) ydy += row.m(c) * inv_m * args.dy(r, c);
    const auto gm = [&](Index c) { return (args.dy(r, c) - row.m(c) * inv_m * ydy) * inv_m; };
    T dturn = 0;
    for (Index c = 0; c < cols; ++c) {
      const Weights<T> w = row.at(c);
      dturn += gm(c) * (w.p_turn * row.a(c) + w.q_turn * row.d(c));
      if (args.dalpha != nullptr) {
        const T slope = row.raw(c) < 0 ? -row.mult : row.mult;
        args.dalpha[args.alpha_count == 1 ? 0 : c] +=
            slope * gm(c) * (w.p_alpha * row.a(c) + w.q_alpha * row.d(c));
      }
    }
    // The turn's gradient: ∂⟨a,b̂⟩/∂a = b̂, and ∂θ/∂a = −(b̂ − cosθ·a)·2/(sinθ·(|a|² + |b̂|²)).
    T across = args.rule == GeodesicRule::riem ? dturn : T{0};
    T along = 0;
    if (args.rule == GeodesicRule::slerp && std::sin(row.turn) > 0 && aa + dd > 0) {
      across = -dturn * 2 / (std::sin(row.turn) * (aa + dd));
      along = -across * std::cos(row.turn);
    }
    const auto ga = [&](Index c) {
      return row.at(c).p * gm(c) + across * row.d(c) + along * row.a(c);
    };
    const auto gd = [&](Index c) {
      return row.at(c).q * gm(c) + across * row.a(c) + along * row.d(c);
    };
    T aga = 0;
    T dgd = 0;
    for (Index c = 0; c < cols; ++c) {
      aga += row.a(c) * ga(c);
      dgd += row.d(c) * gd(c);
    }
    for (Index c = 0; c < cols; ++c) {
      if (args.dh) {
        put_into(args.dh(r, c), (ga(c) - row.a(c) * aga) * row.inv_h, args.dh_into);
      }
      if (args.db) {
        put_into(args.db(r, c), (gd(c) - row.d(c) * dgd) * row.inv_b, args.db_into);
      }
    }
  }
}

template void run(Ref, const GeodesicForward<float>&);
template void run(Ref, const GeodesicForward<double>&);
template void run(Ref, const GeodesicBackward<float>&);
template void run(Ref, const GeodesicBackward<double>&);

}  // namespace norma::kernels
