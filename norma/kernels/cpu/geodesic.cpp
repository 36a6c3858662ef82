// Rows are read and written in f32 and worked on in f64: b̂ − a and the quotients of slerp are small
// differences, and with three streams per row memory is the limit, not arithmetic.
#include "norma/kernels/geodesic.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "norma/kernels/cpu/geodesic_weights.h"
#include "norma/kernels/flags.h"
#include "norma/kernels/parallel.h"

namespace norma::kernels {

namespace {

double inverse_norm(double square, double eps) {
  return square == 0 ? 0 : 1 / std::sqrt(square + eps);
}

void fill_steps(const float* alpha, Index count, double mult, double* steps, Index cols) {
  for (Index c = 0; c < cols; ++c) steps[c] = std::abs(mult * alpha[count == 1 ? 0 : c]);
}

/// y = m for n columns; returns |m|² of them.
template <class Weights>
double mix(const Weights& w,
           const float* __restrict h,
           const float* __restrict b,
           double inv_h,
           double inv_b,
           Index n,
           float* __restrict y) {
  double mm = 0;
#pragma omp simd reduction(+ : mm)
  for (Index c = 0; c < n; ++c) {
    const double m = w.p(c) * (h[c] * inv_h) + w.q(c) * (b[c] * inv_b);
    mm += m * m;
    y[c] = static_cast<float>(m);
  }
  return mm;
}

double mix_arc(const double* alpha,
               double theta,
               const float* h,
               const float* b,
               double inv_h,
               double inv_b,
               Index n,
               float* y) {
  constexpr Index kBlock = 256;
  double p[kBlock];
  double q[kBlock];
  double mm = 0;
  for (Index at = 0; at < n; at += kBlock) {
    const Index size = std::min(kBlock, n - at);
    arc_weights(alpha + at, size, theta, p, q);
    mm += mix(Arc{alpha + at, p, q, 0, 0, 0}, h + at, b + at, inv_h, inv_b, size, y + at);
  }
  return mm;
}

double angle(
    const float* __restrict h, const float* __restrict b, double inv_h, double inv_b, Index n) {
  double apart = 0;
  double joint = 0;
#pragma omp simd reduction(+ : apart, joint)
  for (Index c = 0; c < n; ++c) {
    const double a = h[c] * inv_h;
    const double d = b[c] * inv_b;
    apart += (a - d) * (a - d);
    joint += (a + d) * (a + d);
  }
  return 2 * std::atan2(std::sqrt(apart), std::sqrt(joint));
}

/// One row of backward.
struct RowGrad {
  const float* h;
  const float* b;
  const float* dy;
  float* dh;  // null: not wanted
  float* db;
  double* dalpha;  // gradient of α = |mult·alpha|, added to
  Index n;
};

template <class Weights>
void backward_row(const Weights& w,
                  const GeodesicRow& stats,
                  GeodesicRule rule,
                  const RowGrad& g,
                  Into dh_into,
                  Into db_into) {
  const Index n = g.n;
  const float* __restrict h = g.h;
  const float* __restrict b = g.b;
  const float* __restrict dy = g.dy;
  const double inv_h = stats.inv_h;
  const double inv_b = stats.inv_b;
  const double inv_m = stats.inv_m;
  const double aa = stats.aa;
  const double dd = stats.dd;
  double mdy = 0;
#pragma omp simd reduction(+ : mdy)
  for (Index c = 0; c < n; ++c) {
    const double a = h[c] * inv_h;
    const double d = b[c] * inv_b;
    mdy += (w.p(c) * a + w.q(c) * d) * dy[c];
  }
  const double back = mdy * inv_m * inv_m * inv_m;  // gm = dy/|m| − m·⟨m,dy⟩/|m|³
  const auto gm_at = [&](Index c, double a, double d) {
    return dy[c] * inv_m - (w.p(c) * a + w.q(c) * d) * back;
  };
  double apgm = 0;
  double dqgm = 0;
  double dturn = 0;
  const auto sums = [&](auto with_alpha) {
    double* __restrict dalpha = g.dalpha;
#pragma omp simd reduction(+ : apgm, dqgm, dturn)
    for (Index c = 0; c < n; ++c) {
      const double a = h[c] * inv_h;
      const double d = b[c] * inv_b;
      const double gm = gm_at(c, a, d);
      apgm += a * w.p(c) * gm;
      dqgm += d * w.q(c) * gm;
      if constexpr (Weights::kHasTurn) dturn += gm * (w.p_turn(c) * a + w.q_turn(c) * d);
      if constexpr (with_alpha) dalpha[c] += gm * (w.p_alpha(c) * a + w.q_alpha(c) * d);
    }
  };
  if (g.dalpha != nullptr) {
    sums(std::true_type{});
  } else {
    sums(std::false_type{});
  }
  // The turn's gradient: ∂⟨a,b̂⟩/∂a = b̂, and ∂θ/∂a = −(b̂ − cosθ·a)·2/(sinθ·(|a|² + |b̂|²)).
  double across = 0;
  double along = 0;
  double dot = stats.turn;
  if (Weights::kHasTurn && rule == GeodesicRule::slerp) {
    const double sine = std::sin(stats.turn);
    const double cosine = std::cos(stats.turn);
    dot = cosine * (aa + dd) / 2;
    if (sine > 0 && aa + dd > 0) {
      across = -dturn * 2 / (sine * (aa + dd));
      along = -across * cosine;
    }
  } else if (Weights::kHasTurn) {
    across = dturn;
  }
  const double a_along = along - (apgm + across * dot + along * aa);
  const double d_along = along - (dqgm + across * dot + along * dd);
  with_flags(g.dh != nullptr, g.db != nullptr, [&](auto want_h, auto want_b) {
    with_flags(dh_into == Into::add, db_into == Into::add, [&](auto add_h, auto add_b) {
      float* __restrict dh = g.dh;
      float* __restrict db = g.db;
      for (Index c = 0; c < n; ++c) {
        const double a = h[c] * inv_h;
        const double d = b[c] * inv_b;
        const double gm = gm_at(c, a, d);
        if constexpr (want_h) {
          const double ga = w.p(c) * gm + across * d + a_along * a;
          put<add_h>(dh[c], static_cast<float>(ga * inv_h));
        }
        if constexpr (want_b) {
          const double gd = w.q(c) * gm + across * a + d_along * d;
          put<add_b>(db[c], static_cast<float>(gd * inv_b));
        }
      }
    });
  });
}

/// The partial sums of dα, added up, become the gradient of the stored alpha.
void finish_dalpha(const GeodesicBackward<float>& args, Index chunks) {
  const Index n = args.h.cols;
  const double mult = args.alpha_mult;
  double* sums = args.partials;  // the first chunk's place takes the total
  sum_partials(args.partials, chunks, n, sums, Into::set);
  for (Index c = 0; c < n; ++c) {
    sums[c] *= mult * args.alpha[args.alpha_count == 1 ? 0 : c] < 0 ? -mult : mult;
  }
  if (args.alpha_count == 1) {
    for (Index c = 1; c < n; ++c) sums[0] += sums[c];
  }
  with_into(args.dalpha_into, [&](auto add) {
    for (Index c = 0; c < args.alpha_count; ++c) {
      put<add>(args.dalpha[c], static_cast<float>(sums[c]));
    }
  });
}

}  // namespace

void run(Cpu, const GeodesicForward<float>& args) {
  const Index n = args.h.cols;
  const double* steps = args.steps;
  fill_steps(args.alpha, args.alpha_count, args.alpha_mult, args.steps, n);
  for_each_row(args.h.rows, n, [&](Index r) {
    const float* __restrict h = args.h.row(r);
    const float* __restrict b = args.b.row(r);
    float* __restrict y = args.y.row(r);
    double hh = 0;
    double bb = 0;
    double hb = 0;
#pragma omp simd reduction(+ : hh, bb, hb)
    for (Index c = 0; c < n; ++c) {
      hh += static_cast<double>(h[c]) * h[c];
      bb += static_cast<double>(b[c]) * b[c];
      hb += static_cast<double>(h[c]) * b[c];
    }
    const double inv_h = inverse_norm(hh, args.eps);
    const double inv_b = inverse_norm(bb, args.eps);
    double turn = 0;
    double mm = 0;
    if (args.rule == GeodesicRule::slerp) turn = angle(h, b, inv_h, inv_b, n);
    if (args.rule == GeodesicRule::riem) turn = hb * inv_h * inv_b;
    if (args.rule == GeodesicRule::riem) {
      mm = mix(Chord<true>{steps, turn}, h, b, inv_h, inv_b, n, y);
    } else if (args.rule == GeodesicRule::lerp || near_pi(turn)) {
      mm = mix(Chord<false>{steps, 1}, h, b, inv_h, inv_b, n, y);
    } else if (short_arc(turn)) {
      mm = mix(ShortArc{steps, turn, turn * turn / 6}, h, b, inv_h, inv_b, n, y);
    } else {
      mm = mix_arc(steps, turn, h, b, inv_h, inv_b, n, y);
    }
    const double inv_m = inverse_norm(mm, args.eps);
    for (Index c = 0; c < n; ++c) y[c] = static_cast<float>(y[c] * inv_m);
    args.stats[r] = {inv_h, inv_b, inv_m, turn, hh * inv_h * inv_h, bb * inv_b * inv_b};
  });
}

void run(Cpu, const GeodesicBackward<float>& args) {
  const Index n = args.h.cols;
  const double* steps = args.steps;
  fill_steps(args.alpha, args.alpha_count, args.alpha_mult, args.steps, n);
  const RowChunks chunks(args.h.rows);
  for_each_chunk(chunks, n, [&](Index chunk, Index begin, Index end) {
    double* partial = args.dalpha == nullptr ? nullptr : args.partials + chunk * n;
    if (partial != nullptr) std::fill(partial, partial + n, 0.0);
    for (Index r = begin; r < end; ++r) {
      const GeodesicRow& stats = args.stats[r];
      const RowGrad row{args.h.row(r),
                        args.b.row(r),
                        args.dy.row(r),
                        args.dh ? args.dh.row(r) : nullptr,
                        args.db ? args.db.row(r) : nullptr,
                        partial,
                        n};
      const auto with = [&](const auto& w) {
        backward_row(w, stats, args.rule, row, args.dh_into, args.db_into);
      };
      const double turn = stats.turn;
      if (args.rule == GeodesicRule::riem) {
        with(Chord<true>{steps, turn});
      } else if (args.rule == GeodesicRule::lerp || near_pi(turn)) {
        with(Chord<false>{steps, 1});
      } else if (short_arc(turn)) {
        with(ShortArc{steps, turn, turn * turn / 6});
      } else {
        double* p = args.weights + chunk * 2 * n;
        double* q = p + n;
        arc_weights(steps, n, turn, p, q);
        const double sine = std::sin(turn);
        with(Arc{steps, p, q, std::cos(turn), 1 / sine, turn / sine});
      }
    }
  });
  if (args.dalpha != nullptr) finish_dalpha(args, chunks.count);
}

}  // namespace norma::kernels
