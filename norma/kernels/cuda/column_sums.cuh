// Sums over the rows of a matrix, one for every column, beside whatever else happens to its
// elements. Chunks of rows (RowChunks with kMostOnGpu) are summed by one block each and then added
// in order: the bits depend on the shape alone.
#pragma once

#include "norma/kernels/cuda/pack.cuh"
#include "norma/kernels/parallel.h"

namespace norma::kernels {

inline RowChunks gpu_chunks(Index rows) { return RowChunks(rows, RowChunks::kMostOnGpu); }

inline constexpr int kColumnLanes = 32;  // threads beside each other in a block, N columns each
inline constexpr int kColumnWarps = 8;   // rows in flight

/// f(r, c, sums) for every row r of the block's chunk and every N-th column c; it adds what the N
/// columns from c on contribute to sums[k][0 … N), k < kSums. partials[k] (chunks, cols) gets the
/// chunk's sums; a null one is left out.
template <int kSums, int N, class C, class P, class F>
__device__ void walk_columns(
    Index rows, Index cols, Index chunk_rows, P* const (&partials)[kSums], F&& f) {
  __shared__ C shared[kColumnWarps][kColumnLanes * N];
  const Index c = (static_cast<Index>(blockIdx.x) * kColumnLanes + threadIdx.x) * N;
  const Index begin = static_cast<Index>(blockIdx.y) * chunk_rows;
  const Index end = begin + chunk_rows < rows ? begin + chunk_rows : rows;
  C sums[kSums][N] = {};
  if (c < cols) {
    for (Index r = begin + threadIdx.y; r < end; r += kColumnWarps) f(r, c, sums);
  }
#pragma unroll
  for (int k = 0; k < kSums; ++k) {
    if (partials[k] == nullptr) continue;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; ++i) shared[threadIdx.y][threadIdx.x * N + i] = sums[k][i];
    __syncthreads();
    if (threadIdx.y != 0 || c >= cols) continue;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      C sum = 0;
      for (int w = 0; w < kColumnWarps; ++w) sum += shared[w][threadIdx.x * N + i];
      write(partials[k][static_cast<Index>(blockIdx.y) * cols + c + i], sum);
    }
  }
}
inline dim3 column_grid(Index cols, int n, const RowChunks& chunks) {
  const Index wide = static_cast<Index>(kColumnLanes) * n;
  return {static_cast<unsigned>((cols + wide - 1) / wide), static_cast<unsigned>(chunks.count), 1};
}
inline dim3 column_block() { return {kColumnLanes, kColumnWarps, 1}; }

inline constexpr int kFinishWarps = 16;

template <class P, class Out>
__global__ void finish_columns_kernel(
    const P* partials, Index chunks, Index cols, Out* out, double factor, Into into) {
  // Each warp takes every kFinishWarps-th chunk: one thread alone would wait for hundreds of reads.
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
  put(out[c], factor * sum, into);
}
/// out (cols) = or += factor·Σ partials (chunks, cols).
template <class P, class Out>
void finish_columns(
    const P* partials, Index chunks, Index cols, Out* out, Into into, double factor = 1) {
  launch("adding partial sums",
         device::blocks_for(cols, 32),
         dim3(32, kFinishWarps),
         0,
         finish_columns_kernel<P, Out>,
         partials,
         chunks,
         cols,
         out,
         factor,
         into);
}

}  // namespace norma::kernels
