// The gradient of a step length α = |mult·alpha|, with one alpha for every column or one for all,
// out of the partial sums of ∂/∂α that a kernel left for each chunk of rows and each column.
#pragma once

#include "norma/kernels/cuda/column_sums.cuh"

namespace norma::kernels {

/// The slope of α in alpha; +mult at 0.
__device__ inline double alpha_slope(float alpha, double mult) {
  return mult * alpha < 0 ? -mult : mult;
}

/// As finish_columns_kernel, with a factor for each column.
template <class P>
__global__ void alpha_columns_kernel(const P* partials,
                                     Index chunks,
                                     Index cols,
                                     const float* alpha,
                                     double mult,
                                     float* dalpha,
                                     Into into) {
  __shared__ double shared[kFinishWarps][32];
  const Index c = static_cast<Index>(blockIdx.x) * 32 + threadIdx.x;
  double sum = 0;
  if (c < cols) {
    for (Index chunk = threadIdx.y; chunk < chunks; chunk += kFinishWarps) {
      sum += read<double>(partials[chunk * cols + c]);
    }
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= cols) return;
  for (int w = 1; w < kFinishWarps; ++w) sum += shared[w][threadIdx.x];
  put(dalpha[c], alpha_slope(alpha[c], mult) * sum, into);
}

template <int kThreads, class P>
__global__ void alpha_total_kernel(
    const P* sums, Index cols, const float* alpha, double mult, float* dalpha, Into into) {
  double sum = 0;
  for (Index c = threadIdx.x; c < cols; c += kThreads) sum += read<double>(sums[c]);
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) put(*dalpha, alpha_slope(*alpha, mult) * sum, into);
}

/// dalpha (alphas) = or += slope of α in alpha · Σ partials (chunks, cols), alphas 1 or cols. The
/// first row of the partials may be overwritten.
template <class P>
void finish_alpha(P* partials,
                  Index chunks,
                  Index cols,
                  const float* alpha,
                  Index alphas,
                  double mult,
                  float* dalpha,
                  Into into) {
  if (alphas == cols) {
    launch("the gradient of alpha",
           device::blocks_for(cols, 32),
           dim3(32, kFinishWarps),
           0,
           alpha_columns_kernel<P>,
           partials,
           chunks,
           cols,
           alpha,
           mult,
           dalpha,
           into);
    return;
  }
  // A column's sum replaces its first part, which only the threads of that column have read.
  finish_columns(partials, chunks, cols, partials, Into::set);
  constexpr int kThreads = 256;
  launch("the gradient of one alpha",
         1,
         kThreads,
         0,
         alpha_total_kernel<kThreads, P>,
         partials,
         cols,
         alpha,
         mult,
         dalpha,
         into);
}

}  // namespace norma::kernels
