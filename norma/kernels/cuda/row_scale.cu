#include "norma/kernels/cuda/row_packs.cuh"
#include "norma/kernels/row_scale.h"

namespace norma::kernels {

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

__device__ inline Index row_of_warp() {
  return static_cast<Index>(blockIdx.x) * kWarps + threadIdx.x / 32;
}
unsigned blocks_of(Index rows) { return static_cast<unsigned>((rows + kWarps - 1) / kWarps); }

template <class T, int N>
__global__ void __launch_bounds__(kThreads) forward_kernel(RowScale<T> a) {
  using C = Math<T>;
  const Index r = row_of_warp();
  if (r >= a.to.rows) return;
  const C factor = static_cast<C>(a.mult) * read<C>(a.scale[r]);
  for (Index c = threadIdx.x % 32 * N; c < a.to.cols; c += 32 * N) {
    C values[N];
    read_row(a.from.row(r) + c, values);
#pragma unroll
    for (C& value : values) value *= factor;
    put_row(a.to.row(r) + c, values, Into::set);
  }
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads) backward_kernel(RowScaleBackward<T> a) {
  using C = Math<T>;
  const Index r = row_of_warp();
  if (r >= a.d.rows) return;
  const C mult = static_cast<C>(a.mult);
  const C factor = mult * read<C>(a.scale[r]);
  C sum = 0;
  for (Index c = threadIdx.x % 32 * N; c < a.d.cols; c += 32 * N) {
    C values[N];
    C d[N];
    read_row(a.from.row(r) + c, values);
    read_row(a.d.row(r) + c, d);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      sum += values[i] * d[i];
      d[i] *= factor;
    }
    put_row(a.d.row(r) + c, d, Into::set);
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0 && a.dscale != nullptr) write(a.dscale[r], mult * sum);
}

}  // namespace

template <class T>
void run(Cuda, const RowScale<T>& a) {
  with_pack<T>(packs(a.from, kPack<T>) && packs(a.to, kPack<T>), [&](auto n) {
    launch("scaling rows", blocks_of(a.to.rows), kThreads, 0, forward_kernel<T, n>, a);
  });
}
template void run(Cuda, const RowScale<float>&);
template void run(Cuda, const RowScale<Bf16>&);

template <class T>
void run(Cuda, const RowScaleBackward<T>& a) {
  with_pack<T>(packs(a.from, kPack<T>) && packs(a.d, kPack<T>), [&](auto n) {
    launch(
        "the gradient of scaled rows", blocks_of(a.d.rows), kThreads, 0, backward_kernel<T, n>, a);
  });
}
template void run(Cuda, const RowScaleBackward<float>&);
template void run(Cuda, const RowScaleBackward<Bf16>&);

}  // namespace norma::kernels
