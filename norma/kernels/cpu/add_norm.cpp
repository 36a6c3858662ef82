#include "norma/kernels/add_norm.h"

#include <algorithm>

#include "norma/kernels/cpu/row_norm.h"
#include "norma/kernels/parallel.h"

namespace norma::kernels {

namespace {

// The gradient of the sum is built in blocks that stay in the first-level cache, then handed to
// both addends.
constexpr Index kBlock = 256;

/// sum = scale·x + b, or the norm of b in its place, for row r.
void add(const AddNormForward<float>& a, Index r) {
  const Index n = a.sum.cols;
  const auto scale = static_cast<float>(a.scale);
  const float* __restrict x = a.x.row(r);
  float* __restrict sum = a.sum.row(r);
  if (a.branch.rstd == nullptr) {
    const float* __restrict b = a.b.row(r);
#pragma omp simd
    for (Index c = 0; c < n; ++c) sum[c] = scale * x[c] + b[c];
    return;
  }
  // The norm first lies where the sum will: the bits are those of rms_norm and an addition.
  const RowStats s = row_stats<false>(a.b.row(r), n, static_cast<float>(a.branch.eps));
  a.branch.rstd[r] = s.rstd;
  const RowAffine affine{a.branch.gain, nullptr, static_cast<float>(a.branch.gain_offset)};
  row_normalize<false>(a.b.row(r), n, s, affine, sum);
#pragma omp simd
  for (Index c = 0; c < n; ++c) sum[c] = scale * x[c] + sum[c];
}

template <bool kCenter>
void forward(const AddNormForward<float>& a) {
  const Index n = a.sum.cols;
  const auto eps = static_cast<float>(a.eps);
  const RowAffine affine{a.gain, a.bias, static_cast<float>(a.gain_offset)};
  for_each_row(a.sum.rows, n, [&](Index r) {
    if (a.x) add(a, r);
    if (!a.y) return;
    const float* __restrict sum = a.sum.row(r);
    const RowStats s = row_stats<kCenter>(sum, n, eps);
    if constexpr (kCenter) {
      a.mean[r] = s.mean;
      a.shift[r] = s.shift;
    }
    a.rstd[r] = s.rstd;
    row_normalize<kCenter>(sum, n, s, affine, a.y.row(r));
  });
}

void hand_on(const float* __restrict total, Index n, float scale, float* __restrict to, Into into) {
  with_into(into, [&](auto add) {
#pragma omp simd
    for (Index c = 0; c < n; ++c) put<add>(to[c], scale * total[c]);
  });
}

/// total = dsum + the norm's gradient, for columns [begin, begin + n) of row r.
template <bool kCenter>
void sum_grad(const AddNormBackward<float>& a,
              Index r,
              Index begin,
              Index n,
              const RowStats& s,
              const RowSlope& slope,
              float* __restrict total) {
  const float* __restrict x = a.sum.row(r) + begin;
  const float* __restrict dy = a.dy.row(r) + begin;
  const float* __restrict dsum = a.dsum ? a.dsum.row(r) + begin : nullptr;
  const float* __restrict gain = a.gain == nullptr ? nullptr : a.gain + begin;
  const auto offset = static_cast<float>(a.gain_offset);
  with_flags(gain != nullptr, dsum != nullptr, [&](auto has_gain, auto has_dsum) {
#pragma omp simd
    for (Index c = 0; c < n; ++c) {
      float ghat = dy[c];
      if constexpr (has_gain) ghat *= offset + gain[c];
      float value = row_dx<kCenter>(x[c], ghat, s, slope);
      if constexpr (has_dsum) value += dsum[c];
      total[c] = value;
    }
  });
}

template <bool kCenter>
void backward(const AddNormBackward<float>& a) {
  const Index cols = a.sum.cols;
  const auto scale = static_cast<float>(a.scale);
  const RowAffine affine{a.gain, nullptr, static_cast<float>(a.gain_offset)};
  const RowChunks chunks(a.sum.rows);
  for_each_chunk(chunks, cols, [&](Index chunk, Index first, Index last) {
    float* dgain = a.dgain == nullptr ? nullptr : a.gain_partials + chunk * cols;
    float* dbias = a.dbias == nullptr ? nullptr : a.bias_partials + chunk * cols;
    if (dgain != nullptr) std::fill(dgain, dgain + cols, 0.0f);
    if (dbias != nullptr) std::fill(dbias, dbias + cols, 0.0f);
    float total[kBlock];
    for (Index r = first; r < last; ++r) {
      const RowStats s{kCenter ? a.mean[r] : 0.0f, kCenter ? a.shift[r] : 0.0f, a.rstd[r]};
      row_affine_grads<kCenter>(a.sum.row(r), a.dy.row(r), cols, s, dgain, dbias);
      if (!a.dx && !a.db) continue;
      const RowSlope slope = row_slope<kCenter>(a.sum.row(r), a.dy.row(r), cols, s, affine);
      for (Index begin = 0; begin < cols; begin += kBlock) {
        const Index n = std::min(kBlock, cols - begin);
        sum_grad<kCenter>(a, r, begin, n, s, slope, total);
        if (a.dx) hand_on(total, n, scale, a.dx.row(r) + begin, a.dx_into);
        if (a.db) hand_on(total, n, 1.0f, a.db.row(r) + begin, a.db_into);
      }
    }
  });
  if (a.dgain != nullptr) {
    sum_partials(a.gain_partials, chunks.count, cols, a.dgain, a.dgain_into);
  }
  if (a.dbias != nullptr) {
    sum_partials(a.bias_partials, chunks.count, cols, a.dbias, a.dbias_into);
  }
}

}  // namespace

void run(Cpu, const AddNormForward<float>& a) {
  if (a.mean != nullptr) {
    forward<true>(a);
  } else {
    forward<false>(a);
  }
}

void run(Cpu, const AddNormBackward<float>& a) {
  if (a.mean != nullptr) {
    backward<true>(a);
  } else {
    backward<false>(a);
  }
  if (a.branch.x) run(Cpu{}, a.branch);
}

}  // namespace norma::kernels
