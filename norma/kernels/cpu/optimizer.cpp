#include "norma/kernels/optimizer.h"

#include <algorithm>
#include <cmath>

#include "norma/kernels/parallel.h"

namespace norma::kernels {

void run(Cpu, const SquaredNorm<float>& a) {
  for_each_row(norm_pieces(a.count), kNormPiece, [&](Index piece) {
    const Index begin = piece * kNormPiece;
    const Index end = std::min(a.count, begin + kNormPiece);
    // Blocks of f32 sums, added in double: a gradient of 1e9 entries keeps its digits.
    constexpr Index kBlock = 256;
    double sum = 0;
    for (Index from = begin; from < end; from += kBlock) {
      const float* __restrict g = a.g + from;
      const Index n = std::min(kBlock, end - from);
      float block = 0;
#pragma omp simd reduction(+ : block)
      for (Index i = 0; i < n; ++i) block += g[i] * g[i];
      sum += static_cast<double>(block);
    }
    a.partials[piece] = sum;
  });
}

void run(Cpu, const AdamWStep<float>& a) {
  const auto t = static_cast<double>(a.t);
  const auto step = static_cast<float>(a.lr / (1 - std::pow(a.beta1, t)));
  const auto inverse_root = static_cast<float>(1 / std::sqrt(1 - std::pow(a.beta2, t)));
  const auto keep = static_cast<float>(1 - a.lr * a.decay);
  const auto scale = static_cast<float>(a.grad_scale);
  const auto beta1 = static_cast<float>(a.beta1);
  const auto beta2 = static_cast<float>(a.beta2);
  const auto fresh1 = static_cast<float>(1 - a.beta1);
  const auto fresh2 = static_cast<float>(1 - a.beta2);
  const auto eps = static_cast<float>(a.eps);
  for_each_row(norm_pieces(a.count), kNormPiece, [&](Index piece) {
    const Index begin = piece * kNormPiece;
    const Index n = std::min(a.count - begin, kNormPiece);
    float* __restrict w = a.w + begin;
    const float* __restrict gs = a.g + begin;
    float* __restrict ms = a.m + begin;
    float* __restrict vs = a.v + begin;
    for (Index i = 0; i < n; ++i) {
      const float g = gs[i] * scale;
      const float m = beta1 * ms[i] + fresh1 * g;
      const float v = beta2 * vs[i] + fresh2 * g * g;
      ms[i] = m;
      vs[i] = v;
      w[i] = keep * w[i] - step * m / (std::sqrt(v) * inverse_root + eps);
    }
  });
}

}  // namespace norma::kernels
