#include "norma/ops/batch_norm.h"

#include "norma/ops/dispatch.h"

namespace norma {

namespace {

constexpr std::string_view kOp = "batch_norm";

void check_running(Var x, const BatchNormRunning& running, const BatchNormSpec& spec, bool needed) {
  if (!running.mean && !running.var && !needed) return;
  const Index cols = x.shape().cols();
  const bool by_position = spec.statistics == BatchStatistics::position;
  const Shape wanted = by_position ? Shape{x.shape()[1], cols} : Shape{cols};
  for (const Tensor& t : {running.mean, running.var}) {
    if (!t) {
      throw RequestError(say(kOp,
                             ": the running mean and variance are both needed, ",
                             wanted.text(),
                             " each; at least one is missing."));
    }
    if (!(t.shape == wanted)) {
      throw ShapeError(kOp, "the running statistics", wanted.text(), t.shape.text());
    }
    if (t.dtype != wide(x.dtype())) {
      throw RequestError(say(kOp,
                             ": the running statistics must be ",
                             name_of(wide(x.dtype())),
                             " beside ",
                             name_of(x.dtype()),
                             ", got ",
                             name_of(t.dtype),
                             "."));
    }
  }
}

void check_lengths(Var x, Var lengths) {
  if (!lengths) return;
  if (lengths.dtype() != DType::i32) {
    throw RequestError(say(kOp, ": lengths must be i32, got ", name_of(lengths.dtype()), "."));
  }
  require_shape(kOp, "lengths", lengths, {x.shape()[0]});
  if (planning() || lengths.value().device.kind != DeviceKind::cpu) return;
  for (const std::int32_t length : lengths.value().elements<const std::int32_t>()) {
    if (length < 0 || length > x.shape()[1]) {
      throw RequestError(
          say(kOp, ": lengths must lie between 0 and T = ", x.shape()[1], ", got ", length, "."));
    }
  }
}

/// The GPU sums every position by itself first.
Shape sums_shape(const Tensor& x) {
  if (x.device.kind != DeviceKind::cuda) return {1};
  return {2, x.shape[1], x.shape[2]};
}

}  // namespace

Var batch_norm(
    Var x, Var gain, Var bias, Var lengths, BatchNormRunning running, BatchNormSpec spec) {
  require_float(kOp, "x", x);
  if (x.shape().rank() != 3) throw ShapeError(kOp, "x", "(B, T, C)", x.shape().text());
  require_vector_type(kOp, x, "gain", gain);
  require_vector_type(kOp, x, "bias", bias);
  const Index cols = x.shape().cols();
  require_shape(kOp, "gain", gain, {cols});
  require_shape(kOp, "bias", bias, {cols});
  check_lengths(x, lengths);
  const bool constant = !spec.training || spec.statistics == BatchStatistics::running;
  check_running(x, running, spec, constant);

  const bool by_position = spec.statistics == BatchStatistics::position ||
                           (spec.statistics == BatchStatistics::prefix && !constant);
  const kernels::BatchNormShape shape{.batch = x.shape()[0],
                                      .positions = x.shape()[1],
                                      .sets = by_position ? x.shape()[1] : 1,
                                      .statistics = spec.statistics,
                                      .constant = constant};
  Tape& tape = x.tape();
  const Var y = tape.output(x.shape(), x.dtype());
  const Tensor mean = tape.saved({shape.sets, cols}, wide(x.dtype()));
  const Tensor shift = tape.saved({shape.sets, cols}, wide(x.dtype()));
  const Tensor rstd = tape.saved({shape.sets, cols}, wide(x.dtype()));
  {
    const Scratch sums = tape.scratch(sums_shape(x.value()), DType::f64);
    dispatch(kOp, x.value(), [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(
          who,
          kernels::BatchNormForward<T>{.x = rows<const T>(x),
                                       .lengths = elements<const std::int32_t>(lengths),
                                       .gain = elements<const Wide<T>>(gain),
                                       .bias = elements<const Wide<T>>(bias),
                                       .y = rows<T>(y),
                                       .mean = elements<Wide<T>>(mean),
                                       .shift = elements<Wide<T>>(shift),
                                       .rstd = elements<Wide<T>>(rstd),
                                       .running_mean = elements<Wide<T>>(running.mean),
                                       .running_var = elements<Wide<T>>(running.var),
                                       .sums = elements<double>(sums.tensor()),
                                       .shape = shape,
                                       .update = spec.training && running.mean && tape.recording(),
                                       .momentum = spec.momentum,
                                       .eps = spec.eps});
    });
  }
  tape.pin(x);
  tape.pin(gain);
  tape.pin(lengths);
  tape.record(kOp, {x, gain, bias}, {y}, [=](Backward& b) {
    const Tensor dy = b.grad(y);
    const WantedRows dx = wanted(b, x);
    const WantedRows dgain = wanted(b, gain);
    const WantedRows dbias = wanted(b, bias);
    const Scratch sums = b.scratch(sums_shape(dy), DType::f64);
    dispatch(kOp, dy, [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(who,
                   kernels::BatchNormBackward<T>{.x = rows<const T>(x),
                                                 .lengths = elements<const std::int32_t>(lengths),
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
                                                 .sums = elements<double>(sums.tensor()),
                                                 .shape = shape});
    });
  });
  return y;
}

}  // namespace norma
