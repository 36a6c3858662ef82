// SwiGLU's and GEGLU's gradients on the tiles of the product that brings them theirs.
#include "norma/kernels/activated_products.h"
#include "norma/kernels/cuda/column_sums.cuh"
#include "norma/kernels/cuda/product_gated_gradient_tiles.cuh"

namespace norma::kernels {

namespace {

template <class A>
products::gated_gradient::Scales scales_of(const A& a) {
  return {a.s_u, a.s_v, static_cast<float>(a.u_factor), static_cast<float>(a.g_factor)};
}

}  // namespace

template <>
bool run(Cuda, const GatedGradientProduct<Bf16>& a) {
  const GatedBackward<Bf16>& then = a.then;
  const Index columns = then.u.cols;
  products::Plan plan(a.dout.rows, columns, a.dout.cols);
  const Rows<const Bf16> down{a.down, a.dout.cols, columns, columns};
  plan.add(plan.maps.a, a.dout, {.rows = products::kTileRows})
      .add(plan.maps.b, down)
      .add(plan.maps.in[0], then.u)
      .add(plan.maps.in[1], then.g)
      .add(plan.maps.out[0], then.du)
      .add(plan.maps.out[1], then.dg)
      .add(plan.maps.out[2], a.y);
  const bool set = then.du && then.du_into == Into::set && then.dg && then.dg_into == Into::set;
  if (!plan.good() || !set) return false;
  const char* const what = "a product and a gated activation's gradient";
  const auto go = [&]<Activation kAct>() {
    products::launch_product<products::gated_gradient::Finish<kAct>>(
        what,
        plan,
        {.scales = scales_of(then),
         .sums_u = then.ds_u == nullptr ? nullptr : then.partials_u,
         .sums_v = then.ds_v == nullptr ? nullptr : then.partials_v,
         .value = bool(a.y)});
  };
  if (then.act == Activation::silu) {
    go.template operator()<Activation::silu>();
  } else {
    go.template operator()<Activation::gelu_tanh>();
  }
  const Index count = product_partials(a.dout.rows);
  if (then.ds_u != nullptr) {
    finish_columns(then.partials_u, count, columns, then.ds_u, then.ds_u_into, then.u_factor);
  }
  if (then.ds_v != nullptr) {
    finish_columns(then.partials_v, count, columns, then.ds_v, then.ds_v_into, then.g_factor);
  }
  return true;
}
template <>
bool run(Cuda, const GatedGradientProduct<float>&) {
  return false;
}

}  // namespace norma::kernels
