// Keeping vectors at length 1, or below it, on the GPU.
#pragma once

#include "norma/kernels/cuda/column_sums.cuh"
#include "norma/kernels/vectors.h"

namespace norma::kernels {

/// What makes a vector of this squared length kept: 1 for vectors that stay as they are.
__device__ inline float keeping_factor(double squares, bool only_long) {
  if (squares == 0 || (only_long && squares <= 1)) return 1.0f;
  return static_cast<float>(1 / sqrt(squares));
}

/// w_k *= the factor of column k, from the sums of squares of RowChunks(rows) in `partials`, which
/// are lost. Writes the working copy too.
void scale_columns(Cuda, const Together<KeepVectors<float>>& all);

}  // namespace norma::kernels
