// dh = (dy·down)·act'(h), and z = act(h) again.
#include "norma/kernels/activated_products.h"
#include "norma/kernels/cuda/product_activation_tiles.cuh"

namespace norma::kernels {

template <>
bool run(Cuda, const ActivationGradientProduct<Bf16>& a) {
  const Index depth = a.dy.cols;
  products::Plan plan(a.h.rows, a.h.cols, depth);
  const Rows<const Bf16> down{a.down, depth, a.h.cols, a.h.cols};
  plan.add(plan.maps.a, a.dy, {.rows = products::kTileRows})
      .add(plan.maps.b, down)
      .add(plan.maps.in[0], a.h)
      .add(plan.maps.out[0], a.dh)
      .add(plan.maps.out[1], a.z);
  if (!plan.good()) return false;
  with_activation(a.act, [&](auto act) {
    products::launch_product<products::ActivationGradient<act()>>(
        "a product and an activation's gradient", plan, {.value = bool(a.z)});
  });
  return true;
}
template <>
bool run(Cuda, const ActivationGradientProduct<float>&) {
  return false;
}

}  // namespace norma::kernels
