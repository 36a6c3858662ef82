#include "norma/ops/rms_norm.h"

#include "norma/ops/norm_again.h"
#include "norma/ops/rms_norm_gradient.h"

namespace norma {

namespace {

constexpr std::string_view kOp = "rms_norm";

}  // namespace

void rms_norm_rule(Backward& back,
                   Var x,
                   Var gain,
                   const Tensor& rstd,
                   const Tensor& dy,
                   const RmsNormSpec& spec) {
  const RmsNormGradient gradient(back, x, gain, rstd, spec, dy);
  dispatch(kOp, dy, [&](auto who, auto zero) {
    run_norm_gradient(back, who, gradient.of<decltype(zero)>(dy));
  });
}

Var rms_norm(Var x, Var gain, RmsNormSpec spec) {
  require_float(kOp, "x", x);
  require_vector_type(kOp, x, "gain", gain);
  const Index cols = x.shape().cols();
  const Index group = spec.group == 0 ? cols : spec.group;
  require_divides(kOp, "group", group, "the width", cols);
  require_shape(kOp, "gain", gain, {spec.gain_per_column ? cols : group});

  Tape& tape = x.tape();
  const Var y = tape.output(x.shape(), x.dtype());
  const Tensor rstd = tape.saved({x.shape().rows(), cols / group}, wide(x.dtype()));
  const auto make = [=] {
    dispatch(kOp, x.value(), [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(who,
                   kernels::RmsNormForward<T>{.x = rows<const T>(x),
                                              .gain = elements<const Wide<T>>(gain),
                                              .y = rows<T>(y),
                                              .rstd = elements<Wide<T>>(rstd),
                                              .group = group,
                                              .gain_per_column = spec.gain_per_column,
                                              .gain_offset = spec.gain_offset,
                                              .eps = spec.eps});
    });
  };
  make();
  tape.pin(x);
  tape.pin(gain);
  const auto rule = [=](Backward& back) { rms_norm_rule(back, x, gain, rstd, back.grad(y), spec); };
  tape.record_cheap(Remaking::norms, kOp, {x, gain}, {y}, rule, make);
  return y;
}

}  // namespace norma
