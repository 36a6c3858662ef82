#include "norma/kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include <omp.h>

#include "norma/kernels/parallel.h"
#include "norma/kernels/vec_math.h"

namespace norma::kernels {

namespace {

/// z from u: scaled, capped. Returns z itself, or u where nothing is done to it.
const float* logits_of(const CrossEntropy<float>& a,
                       const float* __restrict u,
                       float* __restrict z) {
  const Index V = a.u.cols;
  if (a.scale == nullptr && a.softcap == 0) return u;
  const auto cap = static_cast<float>(a.softcap);
  const float inverse_cap = a.softcap > 0 ? 1 / cap : 0;
  const float* __restrict s = a.scale;
  if (a.softcap == 0) {
    for (Index j = 0; j < V; ++j) z[j] = s[j] * u[j];
  } else if (s == nullptr) {
    for (Index j = 0; j < V; ++j) z[j] = cap * tanhf(u[j] * inverse_cap);
  } else {
    for (Index j = 0; j < V; ++j) z[j] = cap * tanhf(s[j] * u[j] * inverse_cap);
  }
  return z;
}

/// What one row needs besides its logits.
struct RowTarget {
  const float* soft;  // null: `label` with weight 1 − smoothing
  Index label;
  float keep;  // 1 − smoothing
  float even;  // smoothing / V
};

struct RowSums {
  float most;
  float denominator;  // Σ exp(z − most)
  float mass;         // Σ t
  float below;        // Σ t·(most − z)
};

RowSums sums_of(const float* __restrict z, Index V, const RowTarget& t) {
  RowSums sums{z[0], 0, 0, 0};
  float most = z[0];
#pragma omp simd reduction(max : most)
  for (Index j = 0; j < V; ++j) most = std::max(most, z[j]);
  float denominator = 0;
#pragma omp simd reduction(+ : denominator)
  for (Index j = 0; j < V; ++j) denominator += expf(z[j] - most);
  sums.most = most;
  sums.denominator = denominator;
  float spread = 0;  // Σ (most − z), wanted by the even part of a smoothed target
  if (t.even != 0) {
#pragma omp simd reduction(+ : spread)
    for (Index j = 0; j < V; ++j) spread += most - z[j];
  }
  if (t.soft == nullptr) {
    sums.mass = t.keep + t.even * static_cast<float>(V);
    sums.below = t.keep * (most - z[t.label]) + t.even * spread;
    return sums;
  }
  float mass = 0;
  float below = 0;
  const float* __restrict soft = t.soft;
#pragma omp simd reduction(+ : mass, below)
  for (Index j = 0; j < V; ++j) {
    mass += soft[j];
    below += soft[j] * (most - z[j]);
  }
  sums.mass = t.keep * mass + t.even * static_cast<float>(V);
  sums.below = t.keep * below + t.even * spread;
  return sums;
}

/// dz (V) = weight · (p·(mass + 2ζ·lse) − t), times the slope of the softcap.
void logit_gradient(const CrossEntropy<float>& a,
                    const float* z,
                    const RowTarget& t,
                    const RowSums& sums,
                    float lse,
                    float* dz) {
  const Index V = a.u.cols;
  const auto weight = static_cast<float>(a.weight);
  const float most = sums.most;
  const float factor =
      weight * (sums.mass + 2 * static_cast<float>(a.z_loss) * lse) / sums.denominator;
  const float even = weight * t.even;
  const float keep = weight * t.keep;
  const auto inverse_cap = static_cast<float>(a.softcap > 0 ? 1 / a.softcap : 0);
  const float* soft = t.soft;
  const auto slope = [inverse_cap](float value) {
    const float share = value * inverse_cap;  // 0 without softcap
    return 1 - share * share;
  };
  if (soft != nullptr) {
#pragma omp simd
    for (Index j = 0; j < V; ++j) {
      dz[j] = (factor * expf(z[j] - most) - keep * soft[j] - even) * slope(z[j]);
    }
    return;
  }
  const float label_slope = slope(z[t.label]);
  // z and dz may be the same row: each element is read before it is written.
#pragma omp simd
  for (Index j = 0; j < V; ++j) dz[j] = (factor * expf(z[j] - most) - even) * slope(z[j]);
  dz[t.label] -= keep * label_slope;
}

}  // namespace

void run(Cpu, const CrossEntropy<float>& a) {
  const Index V = a.u.cols;
  const auto z_loss = static_cast<float>(a.z_loss);
  const auto even = static_cast<float>(a.smoothing / static_cast<double>(V));
  const auto keep = static_cast<float>(1 - a.smoothing);
  const RowChunks chunks(a.u.rows);
  for_each_chunk(chunks, V, [&](Index chunk, Index begin, Index end) {
    float* scratch = a.scratch + omp_get_thread_num() * V;
    float* partial = a.dscale == nullptr ? nullptr : a.partials + chunk * V;
    if (partial != nullptr) std::fill(partial, partial + V, 0.0f);
    for (Index r = begin; r < end; ++r) {
      const RowTarget target{
          a.soft ? a.soft.row(r) : nullptr, a.soft ? 0 : a.targets[r], keep, even};
      const float* u = a.u.row(r);
      float* du = a.du.row(r);
      if (target.label < 0) {
        a.token_loss[r] = 0;
        std::fill(du, du + V, 0.0f);
        continue;
      }
      const float* z = logits_of(a, u, scratch);
      const RowSums sums = sums_of(z, V, target);
      const float log_denominator = std::log(sums.denominator);
      const float lse = sums.most + log_denominator;
      a.token_loss[r] = sums.below + sums.mass * log_denominator + z_loss * lse * lse;
      if (a.scale == nullptr) {
        logit_gradient(a, z, target, sums, lse, du);
        continue;
      }
      logit_gradient(a, z, target, sums, lse, scratch);
      if (partial != nullptr) {
#pragma omp simd
        for (Index j = 0; j < V; ++j) partial[j] += scratch[j] * u[j];
      }
#pragma omp simd
      for (Index j = 0; j < V; ++j) du[j] = a.du_scale[j] * scratch[j];
    }
  });
  if (a.dscale != nullptr) sum_partials(a.partials, chunks.count, V, a.dscale, Into::set);
}

}  // namespace norma::kernels
