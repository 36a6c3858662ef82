#include <algorithm>

#include "norma/kernels/parallel.h"
#include "norma/kernels/sum_work.h"

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

void run(Cpu, const ScaleBy<float>& a) {
  const auto factor = static_cast<float>(*a.factor);
  if (factor == 1) return;
  for_each_row(norm_pieces(a.count), kNormPiece, [&](Index piece) {
    const Index begin = piece * kNormPiece;
    const Index end = std::min(a.count, begin + kNormPiece);
    float* __restrict x = a.x;
#pragma omp simd
    for (Index i = begin; i < end; ++i) x[i] *= factor;
  });
}

}  // namespace norma::kernels
