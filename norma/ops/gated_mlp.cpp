#include "norma/ops/gated_mlp.h"

#include <algorithm>

#include "norma/kernels/activated_products.h"
#include "norma/ops/dispatch.h"
#include "norma/ops/linear_products.h"

namespace norma {

namespace {

constexpr std::string_view kOp = "gated_mlp";

/// Columns [first, first + count) of all rows.
template <class T>
kernels::Rows<T> part(kernels::Rows<T> of, Index first, Index count) {
  return {of.data + first, of.rows, count, of.stride};
}

/// What gated is told, the same forward and backward.
struct Rule {
  Activation act = Activation::silu;
  double u_factor = 1;
  double g_factor = 1;
};

template <class T>
kernels::GatedForward<T> forward_of(
    const Rule& rule, kernels::Rows<T> both, Var s_u, Var s_v, kernels::Rows<T> z) {
  return {.u = part(both, 0, z.cols),
          .g = part(both, z.cols, z.cols),
          .s_u = elements<const Wide<T>>(s_u),
          .s_v = elements<const Wide<T>>(s_v),
          .y = z,
          .u_factor = rule.u_factor,
          .g_factor = rule.g_factor,
          .act = rule.act};
}

/// z = gated([u, g] = x·upᵀ)
template <class T, class Who>
void go_up(Who who,
           kernels::Rows<const T> x,
           const T* up,
           kernels::Rows<T> both,
           const kernels::GatedForward<T>& then) {
  const Index inner = then.y.cols;
  const kernels::GatedProduct<T> fused{x, up, part(both, 0, inner), part(both, inner, inner), then};
  if (kernels::run_fused(who, fused)) return;
  kernels::run(who, linear_product(x, up, both));
  kernels::run(who, then);
}

/// du and dg from dz = dy·down. Where z is wanted again it takes the place of dz.
template <class T, class Who>
void come_down(Who who,
               kernels::Rows<const T> dy,
               const T* down,
               kernels::Rows<T> dz,
               bool z_again,
               kernels::GatedBackward<T> then,
               kernels::GatedForward<T> again) {
  again.y = dz;
  const kernels::Rows<T> z = z_again ? dz : kernels::Rows<T>{};
  if (kernels::run_fused(who, kernels::GatedGradientProduct<T>{dy, down, then, z})) return;
  kernels::run(who, input_gradient(dy, down, dz));
  then.dy = dz;
  kernels::run(who, then);
  if (z_again) kernels::run(who, again);
}

/// Partial sums of ds_u or ds_v, enough for whoever makes them.
Shape partials_of(const Tensor& dy, Index inner, bool wanted) {
  const Shape chunks = partial_shape(dy, inner, wanted);
  if (!wanted || dy.dtype != DType::bf16) return chunks;
  return {std::max(chunks[0], kernels::product_partials(dy.shape.rows())), inner};
}

}  // namespace

Var gated_mlp(Var x, Var up, Var down, Var s_u, Var s_v, GatedSpec spec, Var onto) {
  gated_name(spec.act);  // refuses what is no gate
  require_float(kOp, "x", x);
  require_weight(kOp, "up", x, up, x.shape().cols(), "(2F, I) with I = ");
  require_divides(kOp, "2", 2, "the rows of up", up.shape()[0]);
  const Index inner = up.shape()[0] / 2;
  require_weight(kOp, "down", x, down, inner, "(O, F) with F = ");
  for (const auto& [name, scale] : {std::pair{"s_u", s_u}, std::pair{"s_v", s_v}}) {
    require_vector_type(kOp, x, name, scale);
    require_shape(kOp, name, scale, {inner});
  }
  const Shape result = x.shape().with_last(down.shape()[0]);
  require_onto(kOp, x, onto, result);
  const Rule rule = {.act = spec.act,
                     .u_factor = s_u ? spec.u_mult : 1,
                     .g_factor = s_v ? spec.v_mult * spec.gate_scale : spec.gate_scale};

  Tape& tape = x.tape();
  const Shape middle = x.shape().with_last(inner);
  const Shape twice = x.shape().with_last(2 * inner);
  const Var y = tape.output(result, x.dtype());
  const Tensor both = tape.saved(twice, x.dtype());
  const bool again = tape.remakes(Remaking::activations);
  const Tensor kept = again ? Tensor{} : tape.saved(middle, x.dtype());
  {
    const Scratch passing = tape.scratch(again ? middle : Shape{1}, x.dtype());
    dispatch(kOp, x.value(), [&](auto who, auto zero) {
      using T = decltype(zero);
      const auto z = rows<T>(again ? passing.tensor() : kept);
      const auto u_and_g = rows<T>(both);
      go_up<T>(who,
               rows<const T>(x),
               elements<const T>(up),
               u_and_g,
               forward_of<T>(rule, u_and_g, s_u, s_v, z));
      kernels::run(
          who,
          linear_product<T>(z, elements<const T>(down), rows<T>(y), rows_or_none<const T>(onto)));
    });
  }
  for (const Var v : {x, up, down, s_u, s_v}) tape.pin(v);
  tape.record_patient(kOp, {x, up, down, s_u, s_v, onto}, {y}, [=](Backward& b) {
    const Tensor dy = b.grad(y);
    b.pass(onto, y);
    const WantedRows dx = wanted(b, x);
    const WantedRows ddown = wanted(b, down);
    const WantedRows ds_u = wanted(b, s_u);
    const WantedRows ds_v = wanted(b, s_v);
    Scratch dboth = b.scratch(twice, dy.dtype);
    const Scratch other = b.scratch(middle, dy.dtype);  // dz, then z again
    const Scratch partials_u = b.scratch(partials_of(dy, inner, bool(ds_u)), wide(dy.dtype));
    const Scratch partials_v = b.scratch(partials_of(dy, inner, bool(ds_v)), wide(dy.dtype));
    dispatch(kOp, dy, [&](auto who, auto zero) {
      using T = decltype(zero);
      const auto dys = rows<const T>(dy);
      const auto dhs = rows<T>(dboth.tensor());
      const auto place = rows<T>(other.tensor());
      if (again || dx || b.wants(up) || ds_u || ds_v) {
        const auto forward = forward_of<T>(rule, rows<T>(both), s_u, s_v, place);
        come_down<T>(who,
                     dys,
                     elements<const T>(down),
                     place,
                     again,
                     {.u = forward.u,
                      .g = forward.g,
                      .s_u = forward.s_u,
                      .s_v = forward.s_v,
                      .dy = {},
                      .du = part(dhs, 0, inner),
                      .du_into = Into::set,
                      .dg = part(dhs, inner, inner),
                      .dg_into = Into::set,
                      .ds_u = ds_u.template data<Wide<T>>(),
                      .ds_u_into = ds_u.into,
                      .ds_v = ds_v.template data<Wide<T>>(),
                      .ds_v_into = ds_v.into,
                      .partials_u = elements<Wide<T>>(partials_u.tensor()),
                      .partials_v = elements<Wide<T>>(partials_v.tensor()),
                      .u_factor = rule.u_factor,
                      .g_factor = rule.g_factor,
                      .act = rule.act},
                     forward);
      }
      const auto z = rows<const T>(again ? other.tensor() : kept);
      two_map_gradients<T>(who, dys, z, dhs, up, dx, ddown);
    });
    if (b.wants(up)) b.rest(up, dboth, put_weight_gradient(kOp, dboth.tensor(), x, up));
  });
  return y;
}

}  // namespace norma
