#include "norma/kernels/layer_norm.h"

#include <algorithm>

#include "norma/kernels/cpu/head_sums.h"
#include "norma/kernels/cpu/row_norm.h"
#include "norma/kernels/parallel.h"

namespace norma::kernels {

void run(Cpu, const LayerNormForward<float>& a) {
  const Index n = a.group;
  const Index groups = a.x.cols / n;
  const auto offset = static_cast<float>(a.gain_offset);
  const auto eps = static_cast<float>(a.eps);
  for_each_row(a.x.rows, a.x.cols, [&](Index r) {
    for (Index g = 0; g < groups; ++g) {
      const Index at = a.gain_per_column ? g * n : 0;
      const RowAffine affine{a.gain == nullptr ? nullptr : a.gain + at,
                             a.bias == nullptr ? nullptr : a.bias + at,
                             offset};
      const float* x = a.x.row(r) + g * n;
      const RowStats s = row_stats<true>(x, n, eps);
      a.mean[r * groups + g] = s.mean;
      a.shift[r * groups + g] = s.shift;
      a.rstd[r * groups + g] = s.rstd;
      row_normalize<true>(x, n, s, affine, a.y.row(r) + g * n);
    }
  });
}

void run(Cpu, const LayerNormBackward<float>& a) {
  const Index n = a.group;
  const Index groups = a.x.cols / n;
  const Index gains = a.gain_per_column ? a.x.cols : n;
  const bool shared = !a.gain_per_column && groups > 1;
  const auto offset = static_cast<float>(a.gain_offset);
  const RowChunks chunks(a.x.rows);
  for_each_chunk(chunks, a.x.cols, [&](Index chunk, Index begin, Index end) {
    float* dgain = a.dgain == nullptr ? nullptr : a.gain_partials + chunk * gains;
    float* dbias = a.dbias == nullptr ? nullptr : a.bias_partials + chunk * gains;
    if (dgain != nullptr) std::fill(dgain, dgain + gains, 0.0f);
    if (dbias != nullptr) std::fill(dbias, dbias + gains, 0.0f);
    HeadSums gain_sums(dgain, n, shared);
    HeadSums bias_sums(dbias, n, shared);
    for (Index r = begin; r < end; ++r) {
      for (Index g = 0; g < groups; ++g) {
        const Index at = a.gain_per_column ? g * n : 0;
        const float* __restrict x = a.x.row(r) + g * n;
        const float* __restrict dy = a.dy.row(r) + g * n;
        const float* __restrict gain = a.gain == nullptr ? nullptr : a.gain + at;
        const Index k = r * groups + g;
        const RowStats s{a.mean[k], a.shift[k], a.rstd[k]};
        row_affine_grads<true>(x, dy, n, s, gain_sums.next(at), bias_sums.next(at));
        if (!a.dx) continue;
        const RowSlope slope = row_slope<true>(x, dy, n, s, {gain, nullptr, offset});
        float* __restrict dx = a.dx.row(r) + g * n;
        with_flags(gain != nullptr, a.dx_into == Into::add, [&](auto has_gain, auto add) {
#pragma omp simd
          for (Index c = 0; c < n; ++c) {
            float ghat = dy[c];
            if constexpr (has_gain) ghat *= offset + gain[c];
            put<add>(dx[c], row_dx<true>(x[c], ghat, s, slope));
          }
        });
      }
    }
    gain_sums.flush();
    bias_sums.flush();
  });
  if (a.dgain != nullptr) {
    sum_partials(a.gain_partials, chunks.count, gains, a.dgain, a.dgain_into);
  }
  if (a.dbias != nullptr) {
    sum_partials(a.bias_partials, chunks.count, gains, a.dbias, a.dbias_into);
  }
}

}  // namespace norma::kernels
