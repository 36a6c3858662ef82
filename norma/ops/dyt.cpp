#include "norma/ops/dyt.h"

#include "norma/kernels/dyt.h"
#include "norma/ops/dispatch.h"

namespace norma {

namespace {

struct Inputs {
  Var x, a, s, gain, bias;
};

void check(std::string_view op, const Inputs& in) {
  require_float(op, "x", in.x);
  require_float(op, "a", in.a);
  const Index cols = in.x.shape().cols();
  require_vector_type(op, in.x, "a", in.a);
  require_shape(op, "a", in.a, {1});
  require_vector_type(op, in.x, "s", in.s);
  require_shape(op, "s", in.s, {1});
  require_vector_type(op, in.x, "gain", in.gain);
  require_shape(op, "gain", in.gain, {cols});
  require_vector_type(op, in.x, "bias", in.bias);
  require_shape(op, "bias", in.bias, {cols});
}

Var forward(std::string_view op, const Inputs& in, kernels::Squash squash) {
  check(op, in);
  Tape& tape = in.x.tape();
  const Var y = tape.output(in.x.shape(), in.x.dtype());
  dispatch(op, in.x.value(), [&](auto who, auto zero) {
    using T = decltype(zero);
    kernels::run(who,
                 kernels::DytForward<T>{.x = rows<const T>(in.x),
                                        .a = elements<const Wide<T>>(in.a),
                                        .s = elements<const Wide<T>>(in.s),
                                        .gain = elements<const Wide<T>>(in.gain),
                                        .bias = elements<const Wide<T>>(in.bias),
                                        .y = rows<T>(y),
                                        .squash = squash});
  });
  tape.pin(in.x);
  tape.pin(in.a);
  tape.pin(in.s);
  tape.pin(in.gain);
  return y;
}

void backward(std::string_view op, Backward& b, const Inputs& in, Var y, kernels::Squash squash) {
  const Tensor dy = b.grad(y);
  const WantedRows dx = wanted(b, in.x);
  const WantedRows da = wanted(b, in.a);
  const WantedRows ds = wanted(b, in.s);
  const WantedRows dgain = wanted(b, in.gain);
  const WantedRows dbias = wanted(b, in.bias);
  const bool sums = da || ds || dgain || dbias;
  const Index width = kernels::dyt_partials(dy.shape.cols());
  const Scratch partials = b.scratch(partial_shape(dy, width, sums), wide(dy.dtype));
  dispatch(op, dy, [&](auto who, auto zero) {
    using T = decltype(zero);
    kernels::run(who,
                 kernels::DytBackward<T>{.x = rows<const T>(in.x),
                                         .a = elements<const Wide<T>>(in.a),
                                         .s = elements<const Wide<T>>(in.s),
                                         .gain = elements<const Wide<T>>(in.gain),
                                         .dy = rows<const T>(dy),
                                         .dx = dx.rows<T>(),
                                         .dx_into = dx.into,
                                         .da = da.data<Wide<T>>(),
                                         .da_into = da.into,
                                         .ds = ds.data<Wide<T>>(),
                                         .ds_into = ds.into,
                                         .dgain = dgain.data<Wide<T>>(),
                                         .dgain_into = dgain.into,
                                         .dbias = dbias.data<Wide<T>>(),
                                         .dbias_into = dbias.into,
                                         .partials = elements<Wide<T>>(partials.tensor()),
                                         .squash = squash});
  });
}

}  // namespace

Var dyt(Var x, Var a, Var gain, Var bias) {
  constexpr std::string_view kOp = "dyt";
  const Inputs in{x, a, {}, gain, bias};
  const Var y = forward(kOp, in, kernels::Squash::tanh);
  x.tape().record(kOp, {x, a, gain, bias}, {y}, [=](Backward& b) {
    backward(kOp, b, in, y, kernels::Squash::tanh);
  });
  return y;
}

Var derf(Var x, Var a, Var s, Var gain, Var bias) {
  constexpr std::string_view kOp = "derf";
  const Inputs in{x, a, s, gain, bias};
  const Var y = forward(kOp, in, kernels::Squash::erf);
  x.tape().record(kOp, {x, a, s, gain, bias}, {y}, [=](Backward& b) {
    backward(kOp, b, in, y, kernels::Squash::erf);
  });
  return y;
}

}  // namespace norma
