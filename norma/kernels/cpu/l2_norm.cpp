#include "norma/kernels/l2_norm.h"

#include <algorithm>
#include <cmath>

#include "norma/kernels/cpu/head_sums.h"
#include "norma/kernels/flags.h"
#include "norma/kernels/parallel.h"
#include "norma/kernels/row_sum.h"

namespace norma::kernels {

namespace {

/// The factor s of a group: a vector scale·gain[c], or one number for all columns.
struct Factor {
  const float* gain;  // null: one number
  float scale;        // multiplies gain, or is that number
};

template <class Args>
Factor factor_of(const Args& a) {
  const auto scale = static_cast<float>(a.gain_scale);
  if (a.gain == nullptr) return {nullptr, scale};
  if (a.gains == 1) return {nullptr, scale * a.gain[0]};
  return {a.gain, scale};
}

}  // namespace

void run(Cpu, const L2NormForward<float>& a) {
  const Index n = a.group;
  const Index groups = a.x.cols / n;
  const Factor factor = factor_of(a);
  const auto eps = static_cast<float>(a.eps);
  for_each_row(a.x.rows, a.x.cols, [&](Index r) {
    for (Index g = 0; g < groups; ++g) {
      const float* __restrict x = a.x.row(r) + g * n;
      float* __restrict y = a.y.row(r) + g * n;
      const float sum = row_sum(n, [x](Index c) { return x[c] * x[c]; });
      // 0 as the inverse norm makes both y and dx of a vector of zeros 0, with and without eps.
      const float rnorm = sum == 0 ? 0.0f : 1.0f / std::sqrt(sum + eps);
      a.rnorm[r * groups + g] = rnorm;
      const float scale = factor.scale;
      if (factor.gain == nullptr) {
#pragma omp simd
        for (Index c = 0; c < n; ++c) y[c] = x[c] * rnorm * scale;
      } else {
        const float* __restrict gain = factor.gain + g * n % a.gains;
#pragma omp simd
        for (Index c = 0; c < n; ++c) y[c] = x[c] * rnorm * (scale * gain[c]);
      }
    }
  });
}

void run(Cpu, const L2NormBackward<float>& a) {
  const Index n = a.group;
  const Index groups = a.x.cols / n;
  const Factor factor = factor_of(a);
  const auto gain_scale = static_cast<float>(a.gain_scale);
  const bool one_gain = a.gains == 1;
  const RowChunks chunks(a.x.rows);
  for_each_chunk(chunks, a.x.cols, [&](Index chunk, Index begin, Index end) {
    float* partial = a.dgain == nullptr ? nullptr : a.partials + chunk * a.gains;
    if (partial != nullptr) std::fill(partial, partial + a.gains, 0.0f);
    HeadSums sums(one_gain ? nullptr : partial, n, a.gains == n && groups > 1);
    for (Index r = begin; r < end; ++r) {
      for (Index g = 0; g < groups; ++g) {
        const float* __restrict x = a.x.row(r) + g * n;
        const float* __restrict dy = a.dy.row(r) + g * n;
        const Index at = one_gain ? 0 : g * n % a.gains;
        const float* __restrict gain = factor.gain == nullptr ? nullptr : factor.gain + at;
        const float rnorm = a.rnorm[r * groups + g];
        const float scale = factor.scale;
        with_flags(gain != nullptr, a.dx_into == Into::add, [&](auto has_gain, auto add) {
          // ⟨x, dy⟩, or ⟨x, gain·dy⟩
          const float dot = row_sum(n, [=](Index c) {
            float d = dy[c];
            if constexpr (has_gain) d *= gain[c];
            return x[c] * d;
          });
          if (partial != nullptr && one_gain) {
            partial[0] += gain_scale * (dot * rnorm);
          } else if (partial != nullptr) {
            float* __restrict dgain = sums.next(at);
#pragma omp simd
            for (Index c = 0; c < n; ++c) dgain[c] += gain_scale * (x[c] * rnorm * dy[c]);
          }
          if (!a.dx) return;
          // dx = (s·dy − u·⟨u, s·dy⟩)/n, with u = x/n.
          const float along = dot * rnorm * rnorm;
          const float outer = rnorm * scale;
          float* __restrict dx = a.dx.row(r) + g * n;
#pragma omp simd
          for (Index c = 0; c < n; ++c) {
            float d = dy[c];
            if constexpr (has_gain) d *= gain[c];
            put<add>(dx[c], outer * (d - x[c] * along));
          }
        });
      }
    }
    sums.flush();
  });
  if (a.dgain != nullptr) sum_partials(a.partials, chunks.count, a.gains, a.dgain, a.dgain_into);
}

}  // namespace norma::kernels
