#include "norma/kernels/optimizer.h"

#include <algorithm>

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

}  // namespace norma::kernels
