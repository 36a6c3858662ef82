#include "norma/kernels/activation.h"
#include "norma/kernels/cuda/activation_math.cuh"
#include "norma/kernels/cuda/elementwise.cuh"

namespace norma::kernels {

namespace {

template <class T, int N, Activation kKind>
__global__ void forward_kernel(ActivationForward<T> a) {
  using C = Math<T>;
  const Index c = own_column<N>();
  if (c >= a.x.cols) return;
  walk_all_rows(
      a.x.rows,
      [&](Index r) { return load_packs<N>(r, c, a.x); },
      [&](Index r, const Packs<T, N, 1>& in) {
        C values[N];
        unpack(in.of[0], values);
#pragma unroll
        for (int k = 0; k < N; ++k) values[k] = activate<kKind>(values[k]).value;
        write_pack(a.y.row(r) + c, values);
      });
}

template <class T, int N, Activation kKind>
__global__ void backward_kernel(ActivationBackward<T> a) {
  using C = Math<T>;
  const Index c = own_column<N>();
  if (c >= a.x.cols) return;
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
          const auto of = activate<kKind>(x[k]);
          values[k] *= of.slope;
          x[k] = of.value;
        }
        put_pack(a.dx.row(r) + c, values, a.dx_into);
        if (a.y) write_pack(a.y.row(r) + c, x);
      });
}

}  // namespace

template <class T>
void run(Cuda, const ActivationForward<T>& a) {
  with_pack<T>(packs(a.x, kPack<T>) && packs(a.y, kPack<T>), [&](auto n) {
    with_activation(a.kind, [&](auto kind) {
      launch("an activation",
             element_grid(a.x.rows, a.x.cols, n),
             column_block(),
             0,
             forward_kernel<T, n, kind>,
             a);
    });
  });
}
template void run(Cuda, const ActivationForward<float>&);
template void run(Cuda, const ActivationForward<Bf16>&);

template <class T>
void run(Cuda, const ActivationBackward<T>& a) {
  const bool fit = packs(a.x, kPack<T>) && packs(a.dy, kPack<T>) && packs(a.dx, kPack<T>) &&
                   (!a.y || packs(a.y, kPack<T>));
  with_pack<T>(fit, [&](auto n) {
    with_activation(a.kind, [&](auto kind) {
      launch("the gradient of an activation",
             element_grid(a.x.rows, a.x.cols, n),
             column_block(),
             0,
             backward_kernel<T, n, kind>,
             a);
    });
  });
}
template void run(Cuda, const ActivationBackward<float>&);
template void run(Cuda, const ActivationBackward<Bf16>&);

}  // namespace norma::kernels
