// The gradient of a step length α = |mult·alpha|, with one alpha for every column or one for all,
// out of the partial sums of ∂/∂α that a kernel left for each chunk of rows and each column.
#pragma once

#include "norma/kernels/cuda/column_sums.cuh"

namespace norma::kernels {

inline constexpr int kAlphaLanes = 32;  // columns of a block
inline constexpr int kAlphaWarps = 32;  // chunks that are read at once

/// Thread (c, w) adds the chunks w, w + kAlphaWarps, …; the threads' sums are added in order.
template <class P, class Out>
__global__ void add_chunks_kernel(const P* partials,
                                  Index chunks,
                                  Index cols,
                                  const float* alpha,
                                  double mult,
                                  Out* out,
                                  Into into) {
  __shared__ double shared[kAlphaWarps][kAlphaLanes];
  const Index c = static_cast<Index>(blockIdx.x) * kAlphaLanes + threadIdx.x;
  double sum = 0;
  if (c < cols) {
    for (Index chunk = threadIdx.y; chunk < chunks; chunk += kAlphaWarps) {
      sum += read<double>(partials[chunk * cols + c]);
    }
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= cols) return;
  for (int w = 1; w < kAlphaWarps; ++w) sum += shared[w][threadIdx.x];
  // Without alphas the sums are only collected.
  const double slope = alpha == nullptr ? 1 : (mult * alpha[c] < 0 ? -mult : mult);
  put(out[c], slope * sum, into);
}

template <int kThreads, class P>
__global__ void add_columns_kernel(
    const P* sums, Index cols, const float* alpha, double mult, float* out, Into into) {
  double sum = 0;
  for (Index c = threadIdx.x; c < cols; c += kThreads) sum += read<double>(sums[c]);
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x != 0) return;
  put(*out, (mult * *alpha < 0 ? -mult : mult) * sum, into);
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
  const dim3 block(kAlphaLanes, kAlphaWarps);
  const unsigned grid = device::blocks_for(cols, kAlphaLanes);
  if (alphas == cols) {
    launch("the gradient of alpha",
           grid,
           block,
           0,
           add_chunks_kernel<P, float>,
           partials,
           chunks,
           cols,
           alpha,
           mult,
           dalpha,
           into);
    return;
  }
  constexpr int kThreads = 256;
  launch("adding partial sums of alpha",
         grid,
         block,
         0,
         add_chunks_kernel<P, P>,
         partials,
         chunks,
         cols,
         nullptr,
         mult,
         partials,
         Into::set);
  launch("the gradient of alpha",
         1,
         kThreads,
         0,
         add_columns_kernel<kThreads, P>,
         partials,
         cols,
         alpha,
         mult,
         dalpha,
         into);
}

}  // namespace norma::kernels
