#include "norma/kernels/bias.h"
#include "norma/kernels/cuda/column_sums.cuh"

namespace norma::kernels {

namespace {

template <class T, int N>
__global__ void forward_kernel(BiasForward<T> a) {
  using C = Math<T>;
  const Index packs_per_row = a.y.cols / N;
  const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < a.y.rows * packs_per_row;
       i += step) {
    const Index c = i % packs_per_row * N;
    T* at = a.y.row(i / packs_per_row) + c;
    C values[N];
    read_pack(at, values);
#pragma unroll
    for (int k = 0; k < N; ++k) values[k] += read<C>(a.bias[c + k]);
    write_pack(at, values);
  }
}

template <class T, int N>
__global__ void backward_kernel(BiasBackward<T> a, Index chunk_rows) {
  using C = Math<T>;
  Wide<T>* const partials[1] = {a.partials};
  walk_columns<1, N, C>(
      a.dy.rows, a.dy.cols, chunk_rows, partials, [&](Index r, Index c, C(&sums)[1][N]) {
        C dy[N];
        read_pack(a.dy.row(r) + c, dy);
#pragma unroll
        for (int k = 0; k < N; ++k) sums[0][k] += dy[k];
      });
}

}  // namespace

template <class T>
void run(Cuda, const BiasForward<T>& a) {
  constexpr int kThreads = 256;
  with_pack<T>(packs(a.y, kPack<T>), [&](auto n) {
    launch("adding a bias",
           device::blocks_for(a.y.rows * a.y.cols / n, kThreads),
           kThreads,
           0,
           forward_kernel<T, n>,
           a);
  });
}
template void run(Cuda, const BiasForward<float>&);
template void run(Cuda, const BiasForward<Bf16>&);

template <class T>
void run(Cuda, const BiasBackward<T>& a) {
  const RowChunks chunks = gpu_chunks(a.dy.rows);
  with_pack<T>(packs(a.dy, kPack<T>), [&](auto n) {
    launch("the gradient of a bias",
           column_grid(a.dy.cols, n, chunks),
           column_block(),
           0,
           backward_kernel<T, n>,
           a,
           chunks.size);
  });
  finish_columns(a.partials, chunks.count, a.dy.cols, a.dbias, a.into);
}
template void run(Cuda, const BiasBackward<float>&);
template void run(Cuda, const BiasBackward<Bf16>&);

}  // namespace norma::kernels
