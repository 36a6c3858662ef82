#include "norma/ops/add_norm.h"

#include "norma/kernels/add_norm.h"
#include "norma/ops/dispatch.h"

namespace norma {

AddNormResult add_norm(Var x, Var b, Var gain, Var bias, AddNormSpec spec) {
  constexpr std::string_view kOp = "add_norm";
  require_float(kOp, "x", x);
  require_float(kOp, "b", b);
  require_same_type(kOp, x, "b", b);
  require_same_type(kOp, x, "gain", gain);
  require_same_type(kOp, x, "bias", bias);
  const Index cols = x.shape().cols();
  require_shape(kOp, "b", b, x.shape());
  require_shape(kOp, "gain", gain, {cols});
  require_shape(kOp, "bias", bias, {cols});

  Tape& tape = x.tape();
  const Index row_count = x.shape().rows();
  const Var sum = tape.output(x.shape(), x.dtype());
  const Var y = tape.output(x.shape(), x.dtype());
  const Tensor rstd = tape.saved({row_count}, x.dtype());
  const bool centre = spec.norm == AddNormKind::layer;
  const Tensor mean = centre ? tape.saved({row_count}, x.dtype()) : Tensor{};
  const Tensor shift = centre ? tape.saved({row_count}, x.dtype()) : Tensor{};
  dispatch(kOp, x.value(), [&](auto who, auto zero) {
    using T = decltype(zero);
    kernels::run(who,
                 kernels::AddNormForward<T>{.x = rows<const T>(x),
                                            .b = rows<const T>(b),
                                            .gain = elements<const T>(gain),
                                            .bias = elements<const T>(bias),
                                            .sum = rows<T>(sum),
                                            .y = rows<T>(y),
                                            .mean = elements<T>(mean),
                                            .shift = elements<T>(shift),
                                            .rstd = elements<T>(rstd),
                                            .scale = spec.scale,
                                            .gain_offset = spec.gain_offset,
                                            .eps = spec.eps});
  });
  tape.pin(sum);
  tape.pin(gain);
  tape.record(kOp, {x, b, gain, bias}, {sum, y}, [=](Backward& back) {
    const Tensor dsum = back.has_grad(sum) ? back.grad(sum) : Tensor{};
    const Tensor dy = back.grad(y);
    const WantedRows dx = wanted(back, x);
    const WantedRows db = wanted(back, b);
    const WantedRows dgain = wanted(back, gain);
    const WantedRows dbias = wanted(back, bias);
    const Scratch gain_partials =
        back.scratch(partial_shape(row_count, cols, bool(dgain)), dy.dtype);
    const Scratch bias_partials =
        back.scratch(partial_shape(row_count, cols, bool(dbias)), dy.dtype);
    dispatch(kOp, dy, [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(
          who,
          kernels::AddNormBackward<T>{.sum = rows<const T>(sum),
                                      .gain = elements<const T>(gain),
                                      .mean = elements<const T>(mean),
                                      .shift = elements<const T>(shift),
                                      .rstd = elements<const T>(rstd),
                                      .dsum = dsum ? rows<const T>(dsum) : kernels::Rows<const T>{},
                                      .dy = rows<const T>(dy),
                                      .dx = dx.rows<T>(),
                                      .dx_into = dx.into,
                                      .db = db.rows<T>(),
                                      .db_into = db.into,
                                      .dgain = dgain.data<T>(),
                                      .dgain_into = dgain.into,
                                      .dbias = dbias.data<T>(),
                                      .dbias_into = dbias.into,
                                      .gain_partials = elements<T>(gain_partials.tensor()),
                                      .bias_partials = elements<T>(bias_partials.tensor()),
                                      .scale = spec.scale,
                                      .gain_offset = spec.gain_offset});
    });
  });
  return {sum, y};
}

}  // namespace norma
