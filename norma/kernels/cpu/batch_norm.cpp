// Forward; the gradient is in batch_norm_backward.cpp.
#include "norma/kernels/batch_norm.h"

#include <cmath>

#include "norma/kernels/cpu/batch_norm_columns.h"
#include "norma/kernels/flags.h"

namespace norma::kernels {

namespace {

struct Moments {
  double count = 0;
  double mean[kBatchColumns] = {};
  double squares[kBatchColumns] = {};  // Σ (x − mean)²
};

Moments moments_at(const BatchNormForward<float>& a, Index t, ColumnBlock block) {
  Moments m;
  for_valid(a, t, [&](Index r) {
    const float* __restrict x = a.x.row(r) + block.begin;
    m.count += 1;
#pragma omp simd
    for (Index c = 0; c < block.width; ++c) m.mean[c] += static_cast<double>(x[c]);
  });
  if (m.count == 0) return m;
  for (Index c = 0; c < block.width; ++c) m.mean[c] /= m.count;
  for_valid(a, t, [&](Index r) {
    const float* __restrict x = a.x.row(r) + block.begin;
#pragma omp simd
    for (Index c = 0; c < block.width; ++c) {
      const double d = static_cast<double>(x[c]) - m.mean[c];
      m.squares[c] += d * d;
    }
  });
  return m;
}

/// Moments of the union of two sets, without a difference of large squares.
void merge(Moments& into, const Moments& more, Index width) {
  if (more.count == 0) return;
  const double count = into.count + more.count;
  for (Index c = 0; c < width; ++c) {
    const double gap = more.mean[c] - into.mean[c];
    into.mean[c] += gap * (more.count / count);
    into.squares[c] += more.squares[c] + gap * gap * (into.count * more.count / count);
  }
  into.count = count;
}

void keep(const BatchNormForward<float>& a, Index set, ColumnBlock block, const Moments& m) {
  const Index at = set * a.x.cols + block.begin;
  for (Index c = 0; c < block.width; ++c) {
    const auto mean = static_cast<float>(m.mean[c]);
    const double var = m.count == 0 ? 0 : m.squares[c] / m.count;
    a.mean[at + c] = mean;
    a.shift[at + c] = static_cast<float>(m.mean[c] - static_cast<double>(mean));
    a.rstd[at + c] = static_cast<float>(1 / std::sqrt(var + a.eps));
  }
}

void keep_running(const BatchNormForward<float>& a, Index set, ColumnBlock block) {
  const Index at = set * a.x.cols + block.begin;
  for (Index c = at; c < at + block.width; ++c) {
    a.mean[c] = a.running_mean[c];
    a.shift[c] = 0;
    a.rstd[c] = static_cast<float>(1 / std::sqrt(static_cast<double>(a.running_var[c]) + a.eps));
  }
}

void update(const BatchNormForward<float>& a, Index set, ColumnBlock block, const Moments& m) {
  if (!a.update || m.count == 0) return;
  const Index at = set * a.x.cols + block.begin;
  for (Index c = 0; c < block.width; ++c) {
    float& mean = a.running_mean[at + c];
    float& var = a.running_var[at + c];
    mean += static_cast<float>(a.momentum * (m.mean[c] - static_cast<double>(mean)));
    if (m.count < 2) continue;  // one element has no unbiased variance
    const double unbiased = m.squares[c] / (m.count - 1);
    var += static_cast<float>(a.momentum * (unbiased - static_cast<double>(var)));
  }
}

void statistics(const BatchNormForward<float>& a, ColumnBlock block) {
  const BatchNormShape& s = a.shape;
  if (s.constant) {
    for (Index set = 0; set < s.sets; ++set) keep_running(a, set, block);
    if (!a.update) return;
  }
  Moments total;
  for (Index t = 0; t < s.positions; ++t) {
    const Moments here = moments_at(a, t, block);
    if (s.statistics == BatchStatistics::position) {
      if (!s.constant) keep(a, t, block, here);
      update(a, t, block, here);
    } else {
      merge(total, here, block.width);
      if (s.statistics == BatchStatistics::prefix && !s.constant) keep(a, t, block, total);
    }
  }
  if (s.statistics == BatchStatistics::position) return;
  if (s.statistics == BatchStatistics::all && !s.constant) keep(a, 0, block, total);
  update(a, 0, block, total);
}

void normalize(const BatchNormForward<float>& a, Index t, ColumnBlock block) {
  const Index width = block.width;
  const Index at = a.shape.set_of(t) * a.x.cols + block.begin;
  const float* __restrict mean = a.mean + at;
  const float* __restrict shift = a.shift + at;
  const float* __restrict rstd = a.rstd + at;
  const float* __restrict gain = a.gain == nullptr ? nullptr : a.gain + block.begin;
  const float* __restrict bias = a.bias == nullptr ? nullptr : a.bias + block.begin;
  for_valid(a, t, [&](Index r) {
    const float* __restrict x = a.x.row(r) + block.begin;
    float* __restrict y = a.y.row(r) + block.begin;
    with_flags(gain != nullptr, bias != nullptr, [&](auto has_gain, auto has_bias) {
#pragma omp simd
      for (Index c = 0; c < width; ++c) {
        float value = ((x[c] - mean[c]) - shift[c]) * rstd[c];
        if constexpr (has_gain) value *= gain[c];
        if constexpr (has_bias) value += bias[c];
        y[c] = value;
      }
    });
  });
  for_padded(a, t, [&](Index r) { std::fill_n(a.y.row(r) + block.begin, width, 0.0f); });
}

}  // namespace

void run(Cpu, const BatchNormForward<float>& a) {
  for_each_column_block(a.x.rows, a.x.cols, [&](ColumnBlock block) {
    statistics(a, block);
    for (Index t = 0; t < a.shape.positions; ++t) normalize(a, t, block);
  });
}

}  // namespace norma::kernels
