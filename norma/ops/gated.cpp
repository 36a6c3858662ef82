#include "norma/ops/gated.h"

#include "norma/kernels/gated.h"
#include "norma/ops/dispatch.h"

namespace norma {

std::string_view gated_name(Activation act) {
  if (act == Activation::silu) return "swiglu";
  if (act == Activation::gelu_tanh) return "geglu";
  throw RequestError(say("gated: act must be silu or gelu_tanh, got ", name_of(act), "."));
}

Var gated(Var u, Var g, Var s_u, Var s_v, GatedSpec spec) {
  const std::string_view op = gated_name(spec.act);
  require_float(op, "u", u);
  require_float(op, "g", g);
  require_same_type(op, u, "g", g);
  require_vector_type(op, u, "s_u", s_u);
  require_vector_type(op, u, "s_v", s_v);
  require_shape(op, "g", g, u.shape());
  require_shape(op, "s_u", s_u, {u.shape().cols()});
  require_shape(op, "s_v", s_v, {u.shape().cols()});
  const double u_factor = s_u ? spec.u_mult : 1;
  const double g_factor = s_v ? spec.v_mult * spec.gate_scale : spec.gate_scale;

  Tape& tape = u.tape();
  const Var y = tape.output(u.shape(), u.dtype());
  const auto make = [=] {
    dispatch(op, u.value(), [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(who,
                   kernels::GatedForward<T>{.u = rows<const T>(u),
                                            .g = rows<const T>(g),
                                            .s_u = elements<const Wide<T>>(s_u),
                                            .s_v = elements<const Wide<T>>(s_v),
                                            .y = rows<T>(y),
                                            .u_factor = u_factor,
                                            .g_factor = g_factor,
                                            .act = spec.act});
    });
  };
  make();
  for (const Var v : {u, g, s_u, s_v}) tape.pin(v);
  const auto rule = [=](Backward& b) {
    const Tensor dy = b.grad(y);
    const WantedRows du = wanted(b, u);
    const WantedRows dg = wanted(b, g);
    const WantedRows ds_u = wanted(b, s_u);
    const WantedRows ds_v = wanted(b, s_v);
    const Index cols = dy.shape.cols();
    const Scratch partials_u = b.scratch(partial_shape(dy, cols, bool(ds_u)), wide(dy.dtype));
    const Scratch partials_v = b.scratch(partial_shape(dy, cols, bool(ds_v)), wide(dy.dtype));
    dispatch(op, dy, [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(who,
                   kernels::GatedBackward<T>{.u = rows<const T>(u),
                                             .g = rows<const T>(g),
                                             .s_u = elements<const Wide<T>>(s_u),
                                             .s_v = elements<const Wide<T>>(s_v),
                                             .dy = rows<const T>(dy),
                                             .du = du.rows<T>(),
                                             .du_into = du.into,
                                             .dg = dg.rows<T>(),
                                             .dg_into = dg.into,
                                             .ds_u = ds_u.data<Wide<T>>(),
                                             .ds_u_into = ds_u.into,
                                             .ds_v = ds_v.data<Wide<T>>(),
                                             .ds_v_into = ds_v.into,
                                             .partials_u = elements<Wide<T>>(partials_u.tensor()),
                                             .partials_v = elements<Wide<T>>(partials_v.tensor()),
                                             .u_factor = u_factor,
                                             .g_factor = g_factor,
                                             .act = spec.act});
    });
  };
  tape.record_cheap(Remaking::activations, op, {u, g, s_u, s_v}, {y}, rule, make);
  return y;
}

}  // namespace norma
