#include "norma/ops/rms_norm.h"

#include "norma/kernels/rms_norm.h"
#include "norma/ops/dispatch.h"

namespace norma {

namespace {

constexpr std::string_view kOp = "rms_norm";

Index group_of(const RmsNormSpec& spec, Index cols) { return spec.group == 0 ? cols : spec.group; }

}  // namespace

void rms_norm_rule(Backward& back,
                   Var x,
                   Var gain,
                   const Tensor& rstd,
                   const Tensor& dy,
                   const RmsNormSpec& spec) {
  const WantedRows dx = wanted(back, x);
  const WantedRows dgain = wanted(back, gain);
  const Index cols = dy.shape.cols();
  const Index group = group_of(spec, cols);
  const Index gains = spec.gain_per_column ? cols : group;
  const Scratch partials = back.scratch(partial_shape(dy, gains, bool(dgain)), wide(dy.dtype));
  dispatch(kOp, dy, [&](auto who, auto zero) {
    using T = decltype(zero);
    kernels::run(who,
                 kernels::RmsNormBackward<T>{.x = rows<const T>(x),
                                             .gain = elements<const Wide<T>>(gain),
                                             .rstd = elements<const Wide<T>>(rstd),
                                             .dy = rows<const T>(dy),
                                             .dx = dx.rows<T>(),
                                             .dx_into = dx.into,
                                             .dgain = dgain.data<Wide<T>>(),
                                             .dgain_into = dgain.into,
                                             .partials = elements<Wide<T>>(partials.tensor()),
                                             .group = group,
                                             .gain_per_column = spec.gain_per_column,
                                             .gain_offset = spec.gain_offset});
  });
}

Var rms_norm(Var x, Var gain, RmsNormSpec spec) {
  require_float(kOp, "x", x);
  require_vector_type(kOp, x, "gain", gain);
  const Index cols = x.shape().cols();
  const Index group = group_of(spec, cols);
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
