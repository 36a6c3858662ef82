#include "norma/ops/mlp.h"

#include <algorithm>
#include <array>

#include "norma/kernels/activated_products.h"
#include "norma/kernels/activation.h"
#include "norma/ops/dispatch.h"
#include "norma/ops/linear_products.h"

namespace norma {

namespace {

constexpr std::string_view kOp = "mlp";

/// Whether the first product does the activation itself.
template <class T, class Who>
bool rides_on_products(Who, Activation act, const std::array<Index, 4>& sides) {
  const bool offered = std::is_same_v<Who, kernels::Cuda> && std::is_same_v<T, Bf16>;
  return offered && act == Activation::gelu_tanh &&
         std::all_of(sides.begin(), sides.end(), [](Index side) {
           return side % kernels::kEpilogueMultiple == 0;
         });
}

/// z = act(h), h = x·upᵀ
template <class T, class Who>
void go_up(Who who,
           kernels::Rows<const T> x,
           const T* up,
           kernels::Rows<T> h,
           kernels::Rows<T> z,
           bool rides,
           Activation act) {
  kernels::Gemm<T> product = linear_product(x, up, h);
  if (rides) {
    product.c = z.data;
    product.epilogue = kernels::Epilogue::gelu;
    product.inner = h.data;
    return kernels::run(who, product);
  }
  kernels::run(who, product);
  kernels::run(who, kernels::ActivationForward<T>{h, z, act});
}

/// dh = dz·act'(h), dz = dy·down. Where z is wanted again it takes the place of dz.
template <class T, class Who>
void come_down(Who who,
               kernels::Rows<const T> dy,
               const T* down,
               kernels::Rows<T> h,
               kernels::Rows<T> dz,
               kernels::Rows<T> dh,
               bool z_again,
               Activation act) {
  const kernels::Rows<T> z = z_again ? dz : kernels::Rows<T>{};
  if (kernels::run_fused(who, kernels::ActivationGradientProduct<T>{dy, down, h, dh, z, act})) {
    return;
  }
  kernels::run(who, input_gradient(dy, down, dz));
  kernels::run(who,
               kernels::ActivationBackward<T>{
                   .x = h, .dy = dz, .dx = dh, .dx_into = Into::set, .kind = act, .y = z});
}

}  // namespace

Var mlp(Var x, Var up, Var down, Activation act, Var onto) {
  require_float(kOp, "x", x);
  require_weight(kOp, "up", x, up, x.shape().cols(), "(F, I) with I = ");
  require_weight(kOp, "down", x, down, up.shape()[0], "(O, F) with F = ");

  const Shape result = x.shape().with_last(down.shape()[0]);
  require_onto(kOp, x, onto, result);

  Tape& tape = x.tape();
  const Shape inner = x.shape().with_last(up.shape()[0]);
  const std::array sides{x.shape().rows(), x.shape().cols(), inner.cols(), down.shape()[0]};
  const Var y = tape.output(result, x.dtype());
  const Tensor h = tape.saved(inner, x.dtype());
  const bool again = tape.remakes(Remaking::activations);
  const Tensor kept = again ? Tensor{} : tape.saved(inner, x.dtype());
  {
    const Scratch passing = tape.scratch(again ? inner : Shape{1}, x.dtype());
    dispatch(kOp, x.value(), [&](auto who, auto zero) {
      using T = decltype(zero);
      const auto z = rows<T>(again ? passing.tensor() : kept);
      const bool rides = rides_on_products<T>(who, act, sides);
      go_up<T>(who, rows<const T>(x), elements<const T>(up), rows<T>(h), z, rides, act);
      kernels::run(
          who,
          linear_product<T>(z, elements<const T>(down), rows<T>(y), rows_or_none<const T>(onto)));
    });
  }
  for (const Var v : {x, up, down}) tape.pin(v);
  tape.record_patient(kOp, {x, up, down, onto}, {y}, [=](Backward& b) {
    const Tensor dy = b.grad(y);
    b.pass(onto, y);
    const WantedRows dx = wanted(b, x);
    const WantedRows ddown = wanted(b, down);
    Scratch dh = b.scratch(inner, dy.dtype);
    const Scratch other = b.scratch(inner, dy.dtype);  // dz, then z again
    dispatch(kOp, dy, [&](auto who, auto zero) {
      using T = decltype(zero);
      const auto dys = rows<const T>(dy);
      const auto dhs = rows<T>(dh.tensor());
      if (again || dx || b.wants(up)) {
        come_down<T>(who,
                     dys,
                     elements<const T>(down),
                     rows<T>(h),
                     rows<T>(other.tensor()),
                     dhs,
                     again,
                     act);
      }
      const auto z = rows<const T>(again ? other.tensor() : kept);
      two_map_gradients<T>(who, dys, z, dhs, up, dx, ddown);
    });
    if (b.wants(up)) b.rest(up, dh, put_weight_gradient(kOp, dh.tensor(), x, up));
  });
  return y;
}

}  // namespace norma
