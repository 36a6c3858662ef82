#include "norma/kernels/cuda/pack.cuh"
#include "norma/kernels/scaled.h"

namespace norma::kernels {

namespace {

template <class T, int N>
__global__ void put_kernel(PutScaled<T> a) {
  using C = Math<T>;
  const C factor = read<C>(*a.factor);
  const Index packs_per_row = a.to.cols / N;
  const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < a.to.rows * packs_per_row;
       i += step) {
    const Index r = i / packs_per_row;
    const Index c = i % packs_per_row * N;
    const C share = a.shares == nullptr ? 1 : read<C>(a.shares[r]);
    C values[N];
    read_pack(a.from.row(r) + c, values);
#pragma unroll
    for (int k = 0; k < N; ++k) values[k] *= factor * share;
    put_pack(a.to.row(r) + c, values, a.into);
  }
}

}  // namespace

template <class T>
void run(Cuda, const PutScaled<T>& a) {
  constexpr int kThreads = 256;
  with_pack<T>(packs(a.from, kPack<T>) && packs(a.to, kPack<T>), [&](auto n) {
    launch("scaling a gradient",
           device::blocks_for(a.to.rows * a.to.cols / n, kThreads),
           kThreads,
           0,
           put_kernel<T, n>,
           a);
  });
}
template void run(Cuda, const PutScaled<float>&);
template void run(Cuda, const PutScaled<Bf16>&);

}  // namespace norma::kernels
