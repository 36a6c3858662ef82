#include "norma/ops/add_norm.h"

#include "norma/kernels/add_norm.h"
#include "norma/ops/dispatch.h"

namespace norma {

AddNormResult add_norm(Var x, Var b, Var gain, Var bias, AddNormSpec spec) {
  constexpr std::string_view kOp = "add_norm";
  require_float(kOp, "x", x);
  require_float(kOp, "b", b);
  require_same_type(kOp, x, "b", b);
  require_vector_type(kOp, x, "gain", gain);
  require_vector_type(kOp, x, "bias", bias);
  const Index cols = x.shape().cols();
  require_shape(kOp, "b", b, x.shape());
  require_shape(kOp, "gain", gain, {cols});
  require_shape(kOp, "bias", bias, {cols});

  Tape& tape = x.tape();
  const Index row_count = x.shape().rows();
  const Var sum = tape.output(x.shape(), x.dtype());
  const Var y = tape.output(x.shape(), x.dtype());
  const Tensor rstd = tape.saved({row_count}, wide(x.dtype()));
  const bool centre = spec.norm == AddNormKind::layer;
  const Tensor mean = centre ? tape.saved({row_count}, wide(x.dtype())) : Tensor{};
  const Tensor shift = centre ? tape.saved({row_count}, wide(x.dtype())) : Tensor{};
  const auto make = [=](bool again) {
    dispatch(kOp, sum.value(), [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(
          who,
          kernels::AddNormForward<T>{.x = again ? kernels::Rows<const T>{} : rows<const T>(x),
                                     .b = again ? kernels::Rows<const T>{} : rows<const T>(b),
                                     .gain = elements<const Wide<T>>(gain),
                                     .bias = elements<const Wide<T>>(bias),
                                     .sum = rows<T>(sum),
                                     .y = rows<T>(y),
                                     .mean = elements<Wide<T>>(mean),
                                     .shift = elements<Wide<T>>(shift),
                                     .rstd = elements<Wide<T>>(rstd),
                                     .scale = spec.scale,
                                     .gain_offset = spec.gain_offset,
                                     .eps = spec.eps});
    });
  };
  make(false);
  tape.pin(sum);
  tape.pin(gain);
  const auto rule = [=](Backward& back) {
    const Tensor dsum = back.has_grad(sum) ? back.grad(sum) : Tensor{};
    const Tensor dy = back.grad(y);
    const WantedRows dx = wanted(back, x);
    const WantedRows db = wanted(back, b);
    const WantedRows dgain = wanted(back, gain);
    const WantedRows dbias = wanted(back, bias);
    const Scratch gain_partials =
        back.scratch(partial_shape(dy, cols, bool(dgain)), wide(dy.dtype));
    const Scratch bias_partials =
        back.scratch(partial_shape(dy, cols, bool(dbias)), wide(dy.dtype));
    dispatch(kOp, dy, [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(
          who,
          kernels::AddNormBackward<T>{.sum = rows<const T>(sum),
                                      .gain = elements<const Wide<T>>(gain),
                                      .mean = elements<const Wide<T>>(mean),
                                      .shift = elements<const Wide<T>>(shift),
                                      .rstd = elements<const Wide<T>>(rstd),
                                      .dsum = dsum ? rows<const T>(dsum) : kernels::Rows<const T>{},
                                      .dy = rows<const T>(dy),
                                      .dx = dx.rows<T>(),
                                      .dx_into = dx.into,
                                      .db = db.rows<T>(),
                                      .db_into = db.into,
                                      .dgain = dgain.data<Wide<T>>(),
                                      .dgain_into = dgain.into,
                                      .dbias = dbias.data<Wide<T>>(),
                                      .dbias_into = dbias.into,
                                      .gain_partials = elements<Wide<T>>(gain_partials.tensor()),
                                      .bias_partials = elements<Wide<T>>(bias_partials.tensor()),
                                      .scale = spec.scale,
                                      .gain_offset = spec.gain_offset});
    });
  };
  tape.record_cheap(Remaking::norms, kOp, {x, b, gain, bias}, {sum, y}, rule, [=] { make(true); });
  return {sum, y};
}

}  // namespace norma
