#include "norma/kernels/cuda/activation_math.cuh"
#include "norma/kernels/cuda/elementwise.cuh"
#include "norma/kernels/gated.h"

namespace norma::kernels {

namespace {

template <class T, int N, Activation kAct>
__global__ void forward_kernel(GatedForward<T> a) {
  using C = Math<T>;
  const Index c = own_column<N>();
  if (c >= a.u.cols) return;
  C u_scale[N];
  C g_scale[N];
  read_factors(a.s_u, c, a.u_factor, u_scale);
  read_factors(a.s_v, c, a.g_factor, g_scale);
  walk_all_rows(
      a.u.rows,
      [&](Index r) { return load_packs<N>(r, c, a.u, a.g); },
      [&](Index r, const Packs<T, N, 2>& in) {
        C u[N];
        C g[N];
        unpack(in.of[0], u);
        unpack(in.of[1], g);
#pragma unroll
        for (int k = 0; k < N; ++k) {
          u[k] = u_scale[k] * u[k] * activate<kAct>(g_scale[k] * g[k]).value;
        }
        write_pack(a.y.row(r) + c, u);
      });
}

// kSums: ds_u or ds_v is wanted. Both leave out their constant factor until the chunks are added.
// Two blocks must fit a multiprocessor, three where there are no sums: a few registers more than
// that, and one less would.
template <class T, int N, Activation kAct, bool kSums>
__global__ void __launch_bounds__(kColumnLanes* kColumnWarps, kSums ? 2 : 3)
    backward_kernel(GatedBackward<T> a, Index chunk_rows) {
  using C = Math<T>;
  const Index c = own_column<N>();
  C sums[2][N] = {};
  if (c < a.u.cols) {
    C u_scale[N];
    C g_scale[N];
    read_factors(a.s_u, c, a.u_factor, u_scale);
    read_factors(a.s_v, c, a.g_factor, g_scale);
    walk_chunk(
        a.u.rows,
        chunk_rows,
        [&](Index r) { return load_packs<N>(r, c, a.u, a.g, a.dy); },
        [&](Index r, const Packs<T, N, 3>& in) {
          C u[N];
          C g[N];
          C dy[N];
          unpack(in.of[0], u);
          unpack(in.of[1], g);
          unpack(in.of[2], dy);
#pragma unroll
          for (int k = 0; k < N; ++k) {
            const Curve<C> gate = activate<kAct>(g_scale[k] * g[k]);
            const C opened = dy[k] * gate.value;
            const C dgate = dy[k] * u_scale[k] * u[k] * gate.slope;
            if constexpr (kSums) {
              sums[0][k] += opened * u[k];
              sums[1][k] += dgate * g[k];
            }
            u[k] = opened * u_scale[k];
            g[k] = dgate * g_scale[k];
          }
          if (a.du) put_pack(a.du.row(r) + c, u, a.du_into);
          if (a.dg) put_pack(a.dg.row(r) + c, g, a.dg_into);
        });
  }
  if constexpr (kSums) {
    Wide<T>* const partials[2] = {a.ds_u == nullptr ? nullptr : a.partials_u,
                                  a.ds_v == nullptr ? nullptr : a.partials_v};
    put_chunk_sums(sums, a.u.cols, partials);
  }
}

/// Calls f with the gate's activation as a constant.
template <class F>
void with_gate(Activation act, F&& f) {
  if (act == Activation::silu) {
    f(std::integral_constant<Activation, Activation::silu>{});
  } else {
    f(std::integral_constant<Activation, Activation::gelu_tanh>{});
  }
}

template <class T, bool kSums>
void backward(const GatedBackward<T>& a, const RowChunks& chunks) {
  const bool fit = packs(a.u, kPack<T>) && packs(a.g, kPack<T>) && packs(a.dy, kPack<T>) &&
                   packs(a.du, kPack<T>) && packs(a.dg, kPack<T>);
  with_pack<T>(fit, [&](auto n) {
    with_gate(a.act, [&](auto act) {
      launch("the gradient of a gated activation",
             column_grid(a.u.cols, n, chunks),
             column_block(),
             0,
             backward_kernel<T, n, act, kSums>,
             a,
             chunks.size);
    });
  });
}

}  // namespace

template <class T>
void run(Cuda, const GatedForward<T>& a) {
  const bool fit = packs(a.u, kPack<T>) && packs(a.g, kPack<T>) && packs(a.y, kPack<T>);
  with_pack<T>(fit, [&](auto n) {
    with_gate(a.act, [&](auto act) {
      launch("a gated activation",
             element_grid(a.u.rows, a.u.cols, n),
             column_block(),
             0,
             forward_kernel<T, n, act>,
             a);
    });
  });
}
template void run(Cuda, const GatedForward<float>&);
template void run(Cuda, const GatedForward<Bf16>&);

template <class T>
void run(Cuda, const GatedBackward<T>& a) {
  const RowChunks chunks = gpu_chunks(a.u.rows);
  if (a.ds_u == nullptr && a.ds_v == nullptr) return backward<T, false>(a, chunks);
  backward<T, true>(a, chunks);
  const auto finish = [&](Wide<T>* partials, Wide<T>* out, Into into, double factor) {
    if (out != nullptr) finish_columns(partials, chunks.count, a.u.cols, out, into, factor);
  };
  finish(a.partials_u, a.ds_u, a.ds_u_into, a.u_factor);
  finish(a.partials_v, a.ds_v, a.ds_v_into, a.g_factor);
}
template void run(Cuda, const GatedBackward<float>&);
template void run(Cuda, const GatedBackward<Bf16>&);

}  // namespace norma::kernels
