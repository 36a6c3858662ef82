#include "norma/ops/qk_rope.h"

#include "norma/ops/dispatch.h"

namespace norma {

Var qk_rope(Var x, Var gain, const RopeTable& table, QkRopeSpec spec) {
  constexpr std::string_view kOp = "qk_rope";
  table.require(kOp, x, spec.offset);
  require_vector_type(kOp, x, "gain", gain);
  const Index cols = x.shape().cols();
  const Index head = table.spec().head;
  const Index gains = spec.gain_per_column ? cols : head;
  require_shape(kOp, "gain", gain, {gains});

  const bool rms = spec.norm == HeadNorm::rms;
  const kernels::HeadScaling scaling{.norm = spec.norm,
                                     .weight = rms ? 1.0 / static_cast<double>(head) : 1.0,
                                     .eps = rms ? spec.rms_eps : spec.l2_eps,
                                     .gain_offset = spec.gain_offset,
                                     .gain_mult = spec.gain_mult,
                                     .gain_per_column = spec.gain_per_column,
                                     .after_rope = spec.after_rope};
  Tape& tape = x.tape();
  const Index steps = x.shape()[-2];
  const Index offset = spec.offset;
  const RopeTable* angles = &table;
  const Var y = tape.output(x.shape(), x.dtype());
  const Tensor rstd = tape.saved({x.shape().rows(), cols / head}, wide(x.dtype()));
  const auto make = [=] {
    dispatch(kOp, x.value(), [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(who,
                   kernels::QkRopeForward<T>{.x = rows<const T>(x),
                                             .gain = elements<const Wide<T>>(gain),
                                             .y = rows<T>(y),
                                             .rstd = elements<Wide<T>>(rstd),
                                             .factors = angles->factors<T>(steps, offset),
                                             .scaling = scaling});
    });
  };
  make();
  tape.pin(x);
  tape.pin(gain);
  const auto rule = [=](Backward& b) {
    const Tensor dy = b.grad(y);
    const WantedRows dx = wanted(b, x);
    const WantedRows dgain = wanted(b, gain);
    const Scratch partials = b.scratch(partial_shape(dy, gains, bool(dgain)), wide(dy.dtype));
    const Scratch heads = b.scratch(partial_shape(dy, 2 * head, true), wide(dy.dtype));
    dispatch(kOp, dy, [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(who,
                   kernels::QkRopeBackward<T>{.x = rows<const T>(x),
                                              .gain = elements<const Wide<T>>(gain),
                                              .rstd = elements<const Wide<T>>(rstd),
                                              .dy = rows<const T>(dy),
                                              .dx = dx.rows<T>(),
                                              .dx_into = dx.into,
                                              .dgain = dgain.data<Wide<T>>(),
                                              .dgain_into = dgain.into,
                                              .partials = elements<Wide<T>>(partials.tensor()),
                                              .heads = elements<Wide<T>>(heads.tensor()),
                                              .factors = angles->factors<T>(steps, offset),
                                              .scaling = scaling});
    });
  };
  tape.record_cheap(Remaking::norms, kOp, {x, gain}, {y}, rule, make);
  return y;
}

}  // namespace norma
