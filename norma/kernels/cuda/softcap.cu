#include "norma/kernels/cuda/elementwise.cuh"
#include "norma/kernels/softcap.h"

namespace norma::kernels {

namespace {

template <class T, int N>
__global__ void forward_kernel(SoftcapForward<T> a) {
  using C = Math<T>;
  const Index c = own_column<N>();
  if (c >= a.x.cols) return;
  const C cap = static_cast<C>(a.cap);
  const C per_cap = 1 / static_cast<C>(a.cap);
  walk_all_rows(
      a.x.rows,
      [&](Index r) { return load_packs<N>(r, c, a.x); },
      [&](Index r, const Packs<T, N, 1>& in) {
        C values[N];
        unpack(in.of[0], values);
#pragma unroll
        for (int k = 0; k < N; ++k) values[k] = cap * tanh(values[k] * per_cap);
        write_pack(a.y.row(r) + c, values);
      });
}

template <class T, int N>
__global__ void backward_kernel(SoftcapBackward<T> a) {
  using C = Math<T>;
  const Index c = own_column<N>();
  if (c >= a.x.cols) return;
  const C steep = -2 / static_cast<C>(a.cap);
  walk_all_rows(
      a.x.rows,
      [&](Index r) { return load_packs<N>(r, c, a.x, a.dy); },
      [&](Index r, const Packs<T, N, 2>& in) {
        C x[N];
        C values[N];
        unpack(in.of[0], x);
        unpack(in.of[1], values);
#pragma unroll
        for (int k = 0; k < N; ++k) {
          const C e = exp(steep * fabs(x[k]));  // 1 − tanh² without the difference
          values[k] *= 4 * e / ((1 + e) * (1 + e));
        }
        put_pack(a.dx.row(r) + c, values, a.dx_into);
      });
}

}  // namespace

template <class T>
void run(Cuda, const SoftcapForward<T>& a) {
  with_pack<T>(packs(a.x, kPack<T>) && packs(a.y, kPack<T>), [&](auto n) {
    launch("a soft cap",
           element_grid(a.x.rows, a.x.cols, n),
           column_block(),
           0,
           forward_kernel<T, n>,
           a);
  });
}
template void run(Cuda, const SoftcapForward<float>&);
template void run(Cuda, const SoftcapForward<Bf16>&);

template <class T>
void run(Cuda, const SoftcapBackward<T>& a) {
  const bool fit = packs(a.x, kPack<T>) && packs(a.dy, kPack<T>) && packs(a.dx, kPack<T>);
  with_pack<T>(fit, [&](auto n) {
    launch("the gradient of a soft cap",
           element_grid(a.x.rows, a.x.cols, n),
           column_block(),
           0,
           backward_kernel<T, n>,
           a);
  });
}
template void run(Cuda, const SoftcapBackward<float>&);
template void run(Cuda, const SoftcapBackward<Bf16>&);

}  // namespace norma::kernels
