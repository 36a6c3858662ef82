#include "norma/kernels/cuda/elementwise.cuh"
#include "norma/kernels/multiply.h"

namespace norma::kernels {

namespace {

template <class T, int N>
__global__ void multiply_kernel(Multiply<T> a) {
  using C = Math<T>;
  const Index c = own_column<N>();
  if (c >= a.to.cols) return;
  walk_all_rows(
      a.to.rows,
      [&](Index r) { return load_packs<N>(r, c, a.a, a.b); },
      [&](Index r, const Packs<T, N, 2>& in) {
        C values[N];
        C factors[N];
        unpack(in.of[0], values);
        unpack(in.of[1], factors);
#pragma unroll
        for (int k = 0; k < N; ++k) values[k] *= factors[k];
        put_pack(a.to.row(r) + c, values, a.into);
      });
}

}  // namespace

template <class T>
void run(Cuda, const Multiply<T>& a) {
  const bool fit = packs(a.a, kPack<T>) && packs(a.b, kPack<T>) && packs(a.to, kPack<T>);
  with_pack<T>(fit, [&](auto n) {
    launch("a product of elements",
           element_grid(a.to.rows, a.to.cols, n),
           column_block(),
           0,
           multiply_kernel<T, n>,
           a);
  });
}
template void run(Cuda, const Multiply<float>&);
template void run(Cuda, const Multiply<Bf16>&);

}  // namespace norma::kernels
