#include "norma/kernels/bias.h"

#include "norma/kernels/parallel.h"

namespace norma::kernels {

void run(Cpu, const BiasForward<float>& a) {
  for_each_row(a.y.rows, a.y.cols, [&](Index r) {
    float* __restrict y = a.y.row(r);
    const float* __restrict bias = a.bias;
    for (Index c = 0; c < a.y.cols; ++c) y[c] += bias[c];
  });
}

void run(Cpu, const BiasBackward<float>& a) {
  const RowChunks chunks(a.dy.rows);
  const Index cols = a.dy.cols;
  for_each_chunk(chunks, cols, [&](Index chunk, Index begin, Index end) {
    float* __restrict partial = a.partials + chunk * cols;
    std::fill(partial, partial + cols, 0.0f);
    for (Index r = begin; r < end; ++r) {
      const float* __restrict dy = a.dy.row(r);
      for (Index c = 0; c < cols; ++c) partial[c] += dy[c];
    }
  });
  sum_partials(a.partials, chunks.count, cols, a.dbias, a.into);
}

}  // namespace norma::kernels
