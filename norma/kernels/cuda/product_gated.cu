// [u, g] = x·upᵀ and the gated activation of them.
#include "norma/kernels/activated_products.h"
#include "norma/kernels/cuda/product_gated_tiles.cuh"

namespace norma::kernels {

template <>
bool run(Cuda, const GatedProduct<Bf16>& a) {
  const Index columns = a.u.cols;
  products::Plan plan(a.x.rows, columns, a.x.cols);
  plan.add(plan.maps.a, a.x, {.rows = products::kTileRows, .columns = products::gated::kDeep})
      .add(plan.maps.b,
           {a.up, 2 * columns, a.x.cols, a.x.cols},
           {.rows = products::gated::kHalfColumns, .columns = products::gated::kDeep});
  if (!plan.good() || !packs(a.u, 8) || !packs(a.g, 8) || !packs(a.then.y, 8)) return false;
  const bool silu = a.then.act == Activation::silu;
  launch_tiles("a product and a gated activation",
               device::multiprocessors() / 2 * 2,
               products::kThreads,
               products::gated::kBytes,
               silu ? products::gated::gated_kernel<Activation::silu>
                    : products::gated::gated_kernel<Activation::gelu_tanh>,
               plan.maps,
               plan.shape,
               products::gated::Arg{.u = a.u,
                                    .g = a.g,
                                    .y = a.then.y,
                                    .s_u = a.then.s_u,
                                    .s_v = a.then.s_v,
                                    .u_factor = static_cast<float>(a.then.u_factor),
                                    .g_factor = static_cast<float>(a.then.g_factor)});
  return true;
}
template <>
bool run(Cuda, const GatedProduct<float>&) {
  return false;
}

}  // namespace norma::kernels
