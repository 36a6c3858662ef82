#include "norma/ops/layer_norm.h"

#include "norma/kernels/layer_norm.h"
#include "norma/ops/norm_again.h"

namespace norma {

Var layer_norm(Var x, Var gain, Var bias, LayerNormSpec spec) {
  constexpr std::string_view kOp = "layer_norm";
  require_float(kOp, "x", x);
  require_vector_type(kOp, x, "gain", gain);
  require_vector_type(kOp, x, "bias", bias);
  const Index cols = x.shape().cols();
  const Index group = spec.group == 0 ? cols : spec.group;
  require_divides(kOp, "group", group, "the width", cols);
  const Index gains = spec.gain_per_column ? cols : group;
  require_shape(kOp, "gain", gain, {gains});
  require_shape(kOp, "bias", bias, {gains});

  Tape& tape = x.tape();
  const Var y = tape.output(x.shape(), x.dtype());
  const Shape per_group{x.shape().rows(), cols / group};
  const Tensor mean = tape.saved(per_group, wide(x.dtype()));
  const Tensor shift = tape.saved(per_group, wide(x.dtype()));
  const Tensor rstd = tape.saved(per_group, wide(x.dtype()));
  const auto make = [=] {
    dispatch(kOp, x.value(), [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(who,
                   kernels::LayerNormForward<T>{.x = rows<const T>(x),
                                                .gain = elements<const Wide<T>>(gain),
                                                .bias = elements<const Wide<T>>(bias),
                                                .y = rows<T>(y),
                                                .mean = elements<Wide<T>>(mean),
                                                .shift = elements<Wide<T>>(shift),
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
  const auto rule = [=](Backward& b) {
    const Tensor dy = b.grad(y);
    const WantedRows dx = wanted(b, x);
    const WantedRows dgain = wanted(b, gain);
    const WantedRows dbias = wanted(b, bias);
    const Scratch gain_partials = b.scratch(partial_shape(dy, gains, bool(dgain)), wide(dy.dtype));
    const Scratch bias_partials = b.scratch(partial_shape(dy, gains, bool(dbias)), wide(dy.dtype));
    dispatch(kOp, dy, [&](auto who, auto zero) {
      using T = decltype(zero);
      run_norm_gradient(
          b,
          who,
          kernels::LayerNormBackward<T>{.x = rows<const T>(x),
                                        .gain = elements<const Wide<T>>(gain),
                                        .mean = elements<const Wide<T>>(mean),
                                        .shift = elements<const Wide<T>>(shift),
                                        .rstd = elements<const Wide<T>>(rstd),
                                        .dy = rows<const T>(dy),
                                        .dx = dx.rows<T>(),
                                        .dx_into = dx.into,
                                        .dgain = dgain.data<Wide<T>>(),
                                        .dgain_into = dgain.into,
                                        .dbias = dbias.data<Wide<T>>(),
                                        .dbias_into = dbias.into,
                                        .gain_partials = elements<Wide<T>>(gain_partials.tensor()),
                                        .bias_partials = elements<Wide<T>>(bias_partials.tensor()),
                                        .group = group,
                                        .gain_per_column = spec.gain_per_column,
                                        .gain_offset = spec.gain_offset},
          bias);
    });
  };
  tape.record_cheap(Remaking::norms, kOp, {x, gain, bias}, {y}, rule, make);
  return y;
}

}  // namespace norma
