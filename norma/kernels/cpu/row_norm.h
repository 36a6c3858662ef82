// One row (or head) of layer_norm and add_norm in f32: statistics, result, gradient.
// kCenter = true is LayerNorm, false is RMSNorm.
#pragma once

#include <cmath>

#include "norma/base/types.h"
#include "norma/kernels/flags.h"
#include "norma/kernels/row_sum.h"

namespace norma::kernels {

struct RowStats {
  float mean = 0;   // rounded to f32
  float shift = 0;  // what rounding cut off: the exact mean is mean + shift
  float rstd = 0;
};

/// A mean of 1e4 rounded to f32 is off by up to 5e-4, too much for a row whose spread is 1, so the
/// rest of the mean is subtracted separately.
template <bool kCenter>
inline float centred(float x, const RowStats& s) {
  if constexpr (kCenter) {
    return (x - s.mean) - s.shift;
  } else {
    return x;
  }
}

template <bool kCenter>
inline RowStats row_stats(const float* __restrict x, Index n, float eps) {
  const auto count = static_cast<float>(n);
  RowStats s;
  if constexpr (kCenter) {
    // Sums start from the first element, so that a constant row has exactly its value as mean.
    const float first = x[0];
    const float sum = row_sum(n, [=](Index c) { return x[c] - first; });
    const float mean = first + sum / count;
    const float rest = row_sum(n, [=](Index c) { return x[c] - mean; });
    s.mean = mean;
    s.shift = rest / count;
  }
  const float squares = row_sum(n, [=](Index c) {
    const float d = centred<kCenter>(x[c], s);
    return d * d;
  });
  s.rstd = 1.0f / std::sqrt(squares / count + eps);
  // A lone element is its own mean. With rstd = 0 its gradient is 0 too, and not a rounding error
  // times 1/√eps.
  if (kCenter && n == 1) s.rstd = 0;
  return s;
}

/// The factor and summand of one row: y = x̂·(offset + gain) + bias; null gain: 1, null bias: 0.
struct RowAffine {
  const float* gain;
  const float* bias;
  float offset;
};

template <bool kCenter>
inline void row_normalize(
    const float* __restrict x, Index n, RowStats s, RowAffine affine, float* __restrict y) {
  const float* __restrict gain = affine.gain;
  const float* __restrict bias = affine.bias;
  const float offset = affine.offset;
  with_flags(gain != nullptr, bias != nullptr, [=](auto has_gain, auto has_bias) {
#pragma omp simd
    for (Index c = 0; c < n; ++c) {
      float value = centred<kCenter>(x[c], s) * s.rstd;
      if constexpr (has_gain) value *= offset + gain[c];
      if constexpr (has_bias) value += bias[c];
      y[c] = value;
    }
  });
}

/// Adds one row's part of dgain and dbias; null: not wanted.
template <bool kCenter>
inline void row_affine_grads(const float* __restrict x,
                             const float* __restrict dy,
                             Index n,
                             RowStats s,
                             float* __restrict dgain,
                             float* __restrict dbias) {
  if (dgain != nullptr) {
#pragma omp simd
    for (Index c = 0; c < n; ++c) dgain[c] += dy[c] * (centred<kCenter>(x[c], s) * s.rstd);
  }
  if (dbias != nullptr) {
#pragma omp simd
    for (Index c = 0; c < n; ++c) dbias[c] += dy[c];
  }
}

/// What the projection takes away from ĝ = dy·(offset + gain).
struct RowSlope {
  float mean = 0;   // mean(ĝ); 0 without centring
  float along = 0;  // mean(ĝ·x̂)·rstd, to be multiplied with the centred x
};

template <bool kCenter>
inline RowSlope row_slope(
    const float* __restrict x, const float* __restrict dy, Index n, RowStats s, RowAffine affine) {
  const float* __restrict gain = affine.gain;
  const float offset = affine.offset;
  const auto count = static_cast<float>(n);
  RowSlope slope;
  with_flags(gain != nullptr, false, [&](auto has_gain, auto) {
    const auto ghat = [=](Index c) {
      float g = dy[c];
      if constexpr (has_gain) g *= offset + gain[c];
      return g;
    };
    const float dot = row_sum(n, [=](Index c) { return ghat(c) * centred<kCenter>(x[c], s); });
    if constexpr (kCenter) slope.mean = row_sum(n, ghat) / count;
    slope.along = dot * s.rstd * s.rstd / count;
  });
  return slope;
}

/// dx of one element: rstd·(ĝ − mean(ĝ) − x̂·mean(ĝ·x̂)).
template <bool kCenter>
inline float row_dx(float x, float g, const RowStats& s, const RowSlope& slope) {
  if constexpr (kCenter) {
    return s.rstd * ((g - slope.mean) - centred<kCenter>(x, s) * slope.along);
  } else {
    return s.rstd * (g - x * slope.along);
  }
}

}  // namespace norma::kernels
