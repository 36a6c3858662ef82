#include "norma/kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "norma/kernels/parallel.h"
#include "norma/kernels/vec_math.h"

namespace norma::kernels {

namespace {

// Sums within a block are taken in f32 lanes, blocks are added in f64: rows are up to 50304 long.
constexpr Index kBlock = 2048;

/// One row; `partial` takes its share of the gradient of the scale.
struct LossRow {
  const float* u;
  const float* soft;  // null: hard target
  Index target;
  float* du;            // null: no gradients; may be u
  float* partial;       // null: not wanted
  std::int32_t* right;  // null: not wanted
};

/// z of a class, relative to the largest. With a scale the difference is taken before it is rounded
/// to f32, so that large logits that lie close together keep their distance.
template <bool kScaled, bool kCapped>
struct Logit {
  static constexpr bool kHasScale = kScaled;
  const double* factors;
  float cap;
  float inv_cap;
  double top;

  float raw(const float* u, Index v) const {
    if constexpr (kScaled) return static_cast<float>(factors[v] * u[v]);
    return u[v];
  }
  float below_top(const float* u, Index v) const {
    if constexpr (kCapped) return cap * tanhf(raw(u, v) * inv_cap) - static_cast<float>(top);
    if constexpr (kScaled && !kCapped) return static_cast<float>(factors[v] * u[v] - top);
    return u[v] - static_cast<float>(top);
  }
  /// The largest z, in f64 where z is a product.
  double largest(const float* u, Index n) const {
    if constexpr (kScaled && !kCapped) {
      double most = factors[0] * u[0];
#pragma omp simd reduction(max : most)
      for (Index v = 0; v < n; ++v) most = std::max(most, factors[v] * u[v]);
      return most;
    }
    float most = raw(u, 0);
#pragma omp simd reduction(max : most)
    for (Index v = 0; v < n; ++v) most = std::max(most, raw(u, v));
    return static_cast<double>(kCapped ? cap * tanhf(most * inv_cap) : most);
  }
  /// dz/dz0 = 1 − tanh² = 4e/(1+e)², e = exp(−2|z0/C|): it keeps its digits where tanh is near 1.
  float slope(const float* u, Index v) const {
    if constexpr (!kCapped) return 1;
    const float e = expf(-2 * std::fabs(raw(u, v) * inv_cap));
    return 4 * e / ((1 + e) * (1 + e));
  }
};

struct RowSums {
  double others = 0;  // Σ exp(z − top) without the target: what 1 − p is made of
  double exps = 0;    // with it
  double below = 0;   // Σ (z − top)
  double mass = 1;    // Σ target before smoothing
  double cross = 0;   // Σ target·(z − top) before smoothing
};

/// Adds the classes [begin, end) to `others` and `below`.
template <class L>
void add_range(const L& logit, const float* u, Index begin, Index end, RowSums& sums) {
  for (Index at = begin; at < end; at += kBlock) {
    const Index stop = std::min(end, at + kBlock);
    float exps = 0;
    float below = 0;
#pragma omp simd reduction(+ : exps, below)
    for (Index v = at; v < stop; ++v) {
      const float t = logit.below_top(u, v);
      exps += expf(t);
      below += t;
    }
    sums.others += static_cast<double>(exps);
    sums.below += static_cast<double>(below);
  }
}

template <class L>
RowSums hard_sums(const L& logit, const LossRow& row, Index n) {
  RowSums sums;
  add_range(logit, row.u, 0, row.target, sums);
  add_range(logit, row.u, row.target + 1, n, sums);
  sums.cross = static_cast<double>(logit.below_top(row.u, row.target));
  sums.below += sums.cross;
  sums.exps = sums.others + std::exp(sums.cross);
  return sums;
}

template <class L>
RowSums soft_sums(const L& logit, const LossRow& row, Index n) {
  RowSums sums;
  add_range(logit, row.u, 0, n, sums);
  sums.exps = sums.others;
  sums.mass = 0;
  const float* u = row.u;
  const float* soft = row.soft;
  for (Index at = 0; at < n; at += kBlock) {
    const Index stop = std::min(n, at + kBlock);
    float mass = 0;
    float cross = 0;
#pragma omp simd reduction(+ : mass, cross)
    for (Index v = at; v < stop; ++v) {
      mass += soft[v];
      cross += soft[v] * logit.below_top(u, v);
    }
    sums.mass += static_cast<double>(mass);
    sums.cross += static_cast<double>(cross);
  }
  return sums;
}

/// du = passed·dz0 and partial += mult·dz0·u,
/// dz0 = (grow·exp(z − top) − even − keep·target)·dz/dz0; everything divided by the tokens.
struct GradientWeights {
  const double* passed;  // read only when there is a scale
  float grow;
  float even;
  float keep;
  float hit;  // dz of a hard target, which would cancel in f32
  float mult;
};

template <bool kSoft, bool kPartial, class L>
void gradient_row(const L& logit, const LossRow& row, const GradientWeights& w, Index n) {
  const float* u = row.u;  // each place is read before it is written, should du be u
  float* du = row.du;
  const float* soft = row.soft;
  float* partial = row.partial;
  const double* passed = w.passed;
  const Index target = row.target;
  const float hit_u = u[target];
  const float hit = kSoft ? 0 : w.hit * logit.slope(u, target);
  const float hit_partial = kPartial ? partial[target] : 0;
#pragma omp simd
  for (Index v = 0; v < n; ++v) {
    float dz = w.grow * expf(logit.below_top(u, v)) - w.even;
    if constexpr (kSoft) dz -= w.keep * soft[v];
    const float dz0 = dz * logit.slope(u, v);
    if constexpr (kPartial) partial[v] += w.mult * dz0 * u[v];
    if constexpr (L::kHasScale) {
      du[v] = static_cast<float>(passed[v]) * dz0;
    } else {
      du[v] = dz0;
    }
  }
  if constexpr (!kSoft) {
    du[target] = L::kHasScale ? static_cast<float>(passed[target]) * hit : hit;
    if constexpr (kPartial) partial[target] = hit_partial + w.mult * hit * hit_u;
  }
}

/// Whether the target is the first of the largest.
template <class L>
bool ranks_first(const L& logit, const float* u, Index target) {
  if (logit.below_top(u, target) < 0) return false;
  for (Index v = 0; v < target; ++v) {
    if (logit.below_top(u, v) >= 0) return false;
  }
  return true;
}

template <bool kScaled, bool kCapped>
double loss_row(const CrossEntropyLoss<float>& a, const LossRow& row) {
  const Index n = a.u.cols;
  const auto cap = static_cast<float>(a.softcap);
  Logit<kScaled, kCapped> logit{a.factors, cap, kCapped ? 1 / cap : 0, 0};
  logit.top = logit.largest(row.u, n);
  if (row.right != nullptr) *row.right = ranks_first(logit, row.u, row.target) ? 1 : 0;
  const RowSums sums = row.soft == nullptr ? hard_sums(logit, row, n) : soft_sums(logit, row, n);
  const double even = a.smoothing / static_cast<double>(n);
  const double keep = 1 - a.smoothing;
  const double mass = keep * sums.mass + a.smoothing;
  const double log_sum = std::log(sums.exps);
  const double lse = logit.top + log_sum;
  if (row.du != nullptr) {
    const double grow = (mass + 2 * a.z_loss * lse) / sums.exps;
    // (1 + 2ζ·lse)·p − keep − even with p = 1 − others/exps
    const double hit = 2 * a.z_loss * lse + a.smoothing - even - grow * sums.others;
    const GradientWeights w{a.precondition == 0 ? a.factors : a.factors + n,
                            static_cast<float>(grow / *a.tokens),
                            static_cast<float>(even / *a.tokens),
                            static_cast<float>(keep / *a.tokens),
                            static_cast<float>(hit / *a.tokens),
                            static_cast<float>(a.scale_mult)};
    const auto write = [&](auto soft) {
      constexpr bool kSoft = decltype(soft)::value;
      if constexpr (kScaled) {
        if (row.partial != nullptr) return gradient_row<kSoft, true>(logit, row, w, n);
      }
      gradient_row<kSoft, false>(logit, row, w, n);
    };
    if (row.soft == nullptr) {
      write(std::false_type{});
    } else {
      write(std::true_type{});
    }
  }
  return mass * log_sum - keep * sums.cross - even * sums.below + a.z_loss * lse * lse;
}

/// factors = scale_mult·scale, and behind them what du is multiplied with under preconditioning.
void fill_factors(const CrossEntropyLoss<float>& a) {
  const Index n = a.u.cols;
  double mean = 0;
  for (Index v = 0; v < n; ++v) {
    a.factors[v] = a.scale_mult * static_cast<double>(a.scale[v]);
    mean += static_cast<double>(a.scale[v]) / static_cast<double>(n);
  }
  if (a.precondition == 0) return;
  for (Index v = 0; v < n; ++v) {
    a.factors[n + v] = std::pow(static_cast<double>(a.scale[v]) / mean, a.precondition);
  }
}

}  // namespace

void run(Cpu, const CrossEntropyLoss<float>& a) {
  const Index n = a.u.cols;
  if (a.scale != nullptr) fill_factors(a);
  const auto row_loss = [&](Index r, float* partial) {
    const LossRow row{.u = a.u.row(r),
                      .soft = a.soft ? a.soft.row(r) : nullptr,
                      .target = a.soft ? 0 : a.targets[r],
                      .du = a.du ? a.du.row(r) : nullptr,
                      .partial = partial,
                      .right = a.right == nullptr ? nullptr : a.right + r};
    if (row.target < 0) {
      if (row.du != nullptr) std::fill(row.du, row.du + n, 0.0f);
      a.losses[r] = 0;
      if (row.right != nullptr) *row.right = 0;
    } else if (a.scale == nullptr) {
      a.losses[r] = a.softcap > 0 ? loss_row<false, true>(a, row) : loss_row<false, false>(a, row);
    } else {
      a.losses[r] = a.softcap > 0 ? loss_row<true, true>(a, row) : loss_row<true, false>(a, row);
    }
  };
  if (a.dscale == nullptr) {
    for_each_row(a.u.rows, n, [&](Index r) { row_loss(r, nullptr); });
    return;
  }
  const RowChunks chunks(a.u.rows);
  for_each_chunk(chunks, n, [&](Index chunk, Index begin, Index end) {
    float* partial = a.partials + chunk * n;
    std::fill(partial, partial + n, 0.0f);
    for (Index r = begin; r < end; ++r) row_loss(r, partial);
  });
  sum_partials(a.partials, chunks.count, n, a.dscale, Into::set);
}

}  // namespace norma::kernels
