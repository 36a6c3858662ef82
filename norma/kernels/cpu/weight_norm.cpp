#include "norma/kernels/weight_norm.h"

#include <algorithm>
#include <cmath>

#include "norma/kernels/parallel.h"

namespace norma::kernels {

namespace {

// Columns are worked off in blocks of this many, one thread per block: no sum crosses threads. A
// column is summed element by element, with no vector lanes to spread the rounding errors over; in
// double it is as good as a row.
constexpr Index kColumns = 64;

/// v is divided by its norm, not multiplied with the inverse: v/|v| of a single element is then
/// exactly ±1, and its gradient exactly 0. Dividing zeros by 1 leaves them zeros.
float divisor(float norm) { return norm == 0 ? 1.0f : norm; }

/// g/|v|, and 0 for a vector of zeros, so that its gradient is 0.
float outer_factor(const float* g, Index k, float norm) {
  return norm == 0 ? 0.0f : (g == nullptr ? 1.0f : g[k]) / norm;
}

void forward_row(const WeightNormForward<float>& a, Index r) {
  const Index n = a.v.cols;
  const float* __restrict v = a.v.row(r);
  float* __restrict w = a.w.row(r);
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index c = 0; c < n; ++c) sum += v[c] * v[c];
  const float norm = std::sqrt(sum);
  const float by = divisor(norm);
  const float g = a.g == nullptr ? 1.0f : a.g[r];
  a.norm[r] = norm;
#pragma omp simd
  for (Index c = 0; c < n; ++c) w[c] = g * (v[c] / by);
}

void forward_columns(const WeightNormForward<float>& a, Index begin) {
  const Index n = std::min(kColumns, a.v.cols - begin);
  double sum[kColumns] = {};
  for (Index r = 0; r < a.v.rows; ++r) {
    const float* __restrict v = a.v.row(r) + begin;
#pragma omp simd
    for (Index c = 0; c < n; ++c) sum[c] += static_cast<double>(v[c]) * static_cast<double>(v[c]);
  }
  float by[kColumns];
  float g[kColumns];
  for (Index c = 0; c < n; ++c) {
    const auto norm = static_cast<float>(std::sqrt(sum[c]));
    a.norm[begin + c] = norm;
    by[c] = divisor(norm);
    g[c] = a.g == nullptr ? 1.0f : a.g[begin + c];
  }
  for (Index r = 0; r < a.v.rows; ++r) {
    const float* __restrict v = a.v.row(r) + begin;
    float* __restrict w = a.w.row(r) + begin;
#pragma omp simd
    for (Index c = 0; c < n; ++c) w[c] = g[c] * (v[c] / by[c]);
  }
}

void backward_row(const WeightNormBackward<float>& a, Index r) {
  const Index n = a.v.cols;
  const float* __restrict v = a.v.row(r);
  const float* __restrict dw = a.dw.row(r);
  const float by = divisor(a.norm[r]);
  float dot = 0;
#pragma omp simd reduction(+ : dot)
  for (Index c = 0; c < n; ++c) dot += v[c] / by * dw[c];
  if (a.dg != nullptr) a.dg[r] = a.dg_into == Into::add ? a.dg[r] + dot : dot;
  if (!a.dv) return;
  const float outer = outer_factor(a.g, r, a.norm[r]);
  float* __restrict dv = a.dv.row(r);
  with_into(a.dv_into, [&](auto add) {
#pragma omp simd
    for (Index c = 0; c < n; ++c) put<add>(dv[c], outer * (dw[c] - v[c] / by * dot));
  });
}

void backward_columns(const WeightNormBackward<float>& a, Index begin) {
  const Index n = std::min(kColumns, a.v.cols - begin);
  float by[kColumns];
  float outer[kColumns];
  for (Index c = 0; c < n; ++c) {
    by[c] = divisor(a.norm[begin + c]);
    outer[c] = outer_factor(a.g, begin + c, a.norm[begin + c]);
  }
  double sum[kColumns] = {};
  for (Index r = 0; r < a.v.rows; ++r) {
    const float* __restrict v = a.v.row(r) + begin;
    const float* __restrict dw = a.dw.row(r) + begin;
#pragma omp simd
    for (Index c = 0; c < n; ++c) {
      sum[c] += static_cast<double>(v[c] / by[c]) * static_cast<double>(dw[c]);
    }
  }
  float dot[kColumns];
  for (Index c = 0; c < n; ++c) {
    dot[c] = static_cast<float>(sum[c]);
    if (a.dg == nullptr) continue;
    float& slot = a.dg[begin + c];
    slot = a.dg_into == Into::add ? slot + dot[c] : dot[c];
  }
  if (!a.dv) return;
  for (Index r = 0; r < a.v.rows; ++r) {
    const float* __restrict v = a.v.row(r) + begin;
    const float* __restrict dw = a.dw.row(r) + begin;
    float* __restrict dv = a.dv.row(r) + begin;
    with_into(a.dv_into, [&](auto add) {
#pragma omp simd
      for (Index c = 0; c < n; ++c) put<add>(dv[c], outer[c] * (dw[c] - v[c] / by[c] * dot[c]));
    });
  }
}

template <class F>
void for_each_block(const Rows<const float>& v, F&& f) {
  for_each_row((v.cols + kColumns - 1) / kColumns, v.rows * kColumns, [&](Index block) {
    f(block * kColumns);
  });
}

}  // namespace

void run(Cpu, const WeightNormForward<float>& a) {
  if (a.columns) {
    for_each_block(a.v, [&](Index begin) { forward_columns(a, begin); });
  } else {
    for_each_row(a.v.rows, a.v.cols, [&](Index r) { forward_row(a, r); });
  }
}

void run(Cpu, const WeightNormBackward<float>& a) {
  if (a.columns) {
    for_each_block(a.v, [&](Index begin) { backward_columns(a, begin); });
  } else {
    for_each_row(a.v.rows, a.v.cols, [&](Index r) { backward_row(a, r); });
  }
}

}  // namespace norma::kernels
