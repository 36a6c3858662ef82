#include "norma/kernels/qk_rope.h"

#include <algorithm>
#include <cmath>

#include "norma/kernels/cpu/turn_head.h"

namespace norma::kernels {

namespace {

/// The gains of the head that starts at column `at`.
const float* gains_at(const float* gain, const HeadScaling& scaling, Index at) {
  return gain == nullptr ? nullptr : gain + (scaling.gain_per_column ? at : 0);
}

float rstd_of(const float* __restrict v, Index n, const HeadScaling& scaling) {
  if (scaling.norm == HeadNorm::none) return 1;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < n; ++i) sum += v[i] * v[i];
  if (scaling.norm == HeadNorm::l2 && sum == 0) return 0;
  const auto weight = static_cast<float>(scaling.weight);
  return 1 / std::sqrt(sum * weight + static_cast<float>(scaling.eps));
}

/// y = x·rstd·factor; y may be x.
void scale_head(
    const float* x, float rstd, const float* gain, const HeadScaling& scaling, Index n, float* y) {
  const auto offset = static_cast<float>(scaling.gain_offset);
  const auto mult = static_cast<float>(scaling.gain_mult);
  if (gain == nullptr) {
#pragma omp simd
    for (Index i = 0; i < n; ++i) y[i] = x[i] * rstd;
  } else {
#pragma omp simd
    for (Index i = 0; i < n; ++i) y[i] = x[i] * rstd * (offset + mult * gain[i]);
  }
}

/// dgain += mult·g·v̂, then g becomes the gradient of v: rstd·(g·factor − v̂·weight·⟨g·factor, v̂⟩).
void norm_backward(const float* __restrict v,
                   float rstd,
                   const float* __restrict gain,
                   const HeadScaling& scaling,
                   Index n,
                   float* __restrict g,
                   float* __restrict dgain) {
  const auto offset = static_cast<float>(scaling.gain_offset);
  const auto mult = static_cast<float>(scaling.gain_mult);
  if (dgain != nullptr) {
    for (Index i = 0; i < n; ++i) dgain[i] += mult * g[i] * (v[i] * rstd);
  }
  if (gain != nullptr) {
    for (Index i = 0; i < n; ++i) g[i] *= offset + mult * gain[i];
  }
  float along = 0;
  if (scaling.norm != HeadNorm::none) {
#pragma omp simd reduction(+ : along)
    for (Index i = 0; i < n; ++i) along += g[i] * v[i];
    along *= rstd * rstd * static_cast<float>(scaling.weight);
  }
  for (Index i = 0; i < n; ++i) g[i] = rstd * (g[i] - v[i] * along);
}

template <RopeLayout kLayout>
void forward_row(const QkRopeForward<float>& a, Index r) {
  const RopeFactors<float>& f = a.factors;
  const Index n = 2 * f.pairs;
  const Index heads = a.x.cols / n;
  const float* cosine = f.cosine_of(r);
  const float* sine = f.sine_of(r);
  for (Index h = 0; h < heads; ++h) {
    const float* x = a.x.row(r) + h * n;
    float* y = a.y.row(r) + h * n;
    const float* gain = gains_at(a.gain, a.scaling, h * n);
    float& rstd = a.rstd[r * heads + h];
    if (a.scaling.after_rope) {
      turn_pairs<kLayout, false, false>(x, cosine, sine, f.pairs, y);
      rstd = rstd_of(y, n, a.scaling);
      scale_head(y, rstd, gain, a.scaling, n, y);
    } else {
      rstd = rstd_of(x, n, a.scaling);
      scale_head(x, rstd, gain, a.scaling, n, y);
      turn_pairs<kLayout, false, false>(y, cosine, sine, f.pairs, y);
    }
  }
}

/// `work` holds two heads: the gradient where the norm sits, and the turned x.
template <RopeLayout kLayout, bool kAdd>
void backward_row(const QkRopeBackward<float>& a, Index r, float* partial, float* work) {
  const RopeFactors<float>& f = a.factors;
  const Index n = 2 * f.pairs;
  const Index heads = a.x.cols / n;
  const float* cosine = f.cosine_of(r);
  const float* sine = f.sine_of(r);
  float* __restrict g = work;
  float* turned_x = work + n;
  for (Index h = 0; h < heads; ++h) {
    const Index at = h * n;
    const float* x = a.x.row(r) + at;
    const float* dy = a.dy.row(r) + at;
    const float* gain = gains_at(a.gain, a.scaling, at);
    float* dgain = partial == nullptr ? nullptr : partial + (a.scaling.gain_per_column ? at : 0);
    const float rstd = a.rstd[r * heads + h];
    if (a.scaling.after_rope) {
      turn_pairs<kLayout, false, false>(x, cosine, sine, f.pairs, turned_x);
      std::copy(dy, dy + n, g);
      norm_backward(turned_x, rstd, gain, a.scaling, n, g, dgain);
      if (a.dx) turn_pairs<kLayout, true, kAdd>(g, cosine, sine, f.pairs, a.dx.row(r) + at);
    } else {
      turn_pairs<kLayout, true, false>(dy, cosine, sine, f.pairs, g);
      norm_backward(x, rstd, gain, a.scaling, n, g, dgain);
      if (!a.dx) continue;
      float* __restrict dx = a.dx.row(r) + at;
      for (Index i = 0; i < n; ++i) put<kAdd>(dx[i], g[i]);
    }
  }
}

}  // namespace

void run(Cpu, const QkRopeForward<float>& a) {
  with_layout(a.factors.layout, [&](auto layout) {
    for_each_row(a.x.rows, a.x.cols, [&](Index r) { forward_row<decltype(layout)::value>(a, r); });
  });
}

void run(Cpu, const QkRopeBackward<float>& a) {
  const Index head = 2 * a.factors.pairs;
  const Index gains = a.scaling.gain_per_column ? a.x.cols : head;
  const RowChunks chunks(a.x.rows);
  with_layout(a.factors.layout, [&](auto layout) {
    with_into(a.dx_into, [&](auto add) {
      for_each_chunk(chunks, a.x.cols, [&](Index chunk, Index begin, Index end) {
        float* partial = a.dgain == nullptr ? nullptr : a.partials + chunk * gains;
        if (partial != nullptr) std::fill(partial, partial + gains, 0.0f);
        float* work = a.heads + chunk * 2 * head;
        for (Index r = begin; r < end; ++r) {
          backward_row<decltype(layout)::value, decltype(add)::value>(a, r, partial, work);
        }
      });
    });
  });
  if (a.dgain != nullptr) sum_partials(a.partials, chunks.count, gains, a.dgain, a.dgain_into);
}

}  // namespace norma::kernels
