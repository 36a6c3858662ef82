#include "norma/kernels/rms_norm.h"

#include <algorithm>
#include <cmath>

#include "norma/kernels/parallel.h"
#include "norma/kernels/row_sum.h"

namespace norma::kernels {

void run(Cpu, const RmsNormForward<float>& a) {
  const Index n = a.group;
  const Index groups = a.x.cols / n;
  const auto offset = static_cast<float>(a.gain_offset);
  const auto eps = static_cast<float>(a.eps);
  for_each_row(a.x.rows, a.x.cols, [&](Index r) {
    for (Index g = 0; g < groups; ++g) {
      const float* __restrict x = a.x.row(r) + g * n;
      float* __restrict y = a.y.row(r) + g * n;
      const float sum = row_sum(n, [x](Index c) { return x[c] * x[c]; });
      const float rstd = 1.0f / std::sqrt(sum / static_cast<float>(n) + eps);
      a.rstd[r * groups + g] = rstd;
      if (a.gain == nullptr) {
        for (Index c = 0; c < n; ++c) y[c] = x[c] * rstd;
      } else {
        const float* __restrict gain = a.gain + (a.gain_per_column ? g * n : 0);
        for (Index c = 0; c < n; ++c) y[c] = x[c] * rstd * (offset + gain[c]);
      }
    }
  });
}

void run(Cpu, const RmsNormBackward<float>& a) {
  const Index n = a.group;
  const Index groups = a.x.cols / n;
  const Index gains = a.gain_per_column ? a.x.cols : n;
  const auto offset = static_cast<float>(a.gain_offset);
  const RowChunks chunks(a.x.rows);
  for_each_chunk(chunks, a.x.cols, [&](Index chunk, Index begin, Index end) {
    float* partial = a.dgain == nullptr ? nullptr : a.partials + chunk * gains;
    if (partial != nullptr) std::fill(partial, partial + gains, 0.0f);
    for (Index r = begin; r < end; ++r) {
      for (Index g = 0; g < groups; ++g) {
        const float* __restrict x = a.x.row(r) + g * n;
        const float* __restrict dy = a.dy.row(r) + g * n;
        const Index at = a.gain_per_column ? g * n : 0;
        const float* __restrict gain = a.gain == nullptr ? nullptr : a.gain + at;
        const float rstd = a.rstd[r * groups + g];
        if (partial != nullptr) {
          float* __restrict dgain = partial + at;
          for (Index c = 0; c < n; ++c) dgain[c] += dy[c] * x[c] * rstd;
        }
        if (!a.dx) continue;
        const float dot =
            gain == nullptr
                ? row_sum(n, [=](Index c) { return dy[c] * x[c]; })
                : row_sum(n, [=](Index c) { return dy[c] * (offset + gain[c]) * x[c]; });
        // dx = rstd·(dy·gain − x̂·mean(dy·gain·x̂)), with x̂ = x·rstd.
        const float along = dot * rstd * rstd / static_cast<float>(n);
        float* __restrict dx = a.dx.row(r) + g * n;
        with_into(a.dx_into, [&](auto add) {
          if (gain == nullptr) {
            for (Index c = 0; c < n; ++c) put<add>(dx[c], rstd * (dy[c] - x[c] * along));
          } else {
            for (Index c = 0; c < n; ++c) {
              put<add>(dx[c], rstd * (dy[c] * (offset + gain[c]) - x[c] * along));
            }
          }
        });
      }
    }
  });
  if (a.dgain != nullptr) sum_partials(a.partials, chunks.count, gains, a.dgain, a.dgain_into);
}

}  // namespace norma::kernels
