#include "norma/ops/linear.h"

#include "norma/kernels/bias.h"
#include "norma/ops/dispatch.h"
#include "norma/ops/linear_products.h"

namespace norma {

Var linear(Var x, Var weight, Var bias, Var onto) {
  constexpr std::string_view kOp = "linear";
  require_float(kOp, "x", x);
  require_weight(kOp, "weight", x, weight, x.shape().cols(), "(O, I) with I = ");
  require_vector_type(kOp, x, "bias", bias);
  const Index out = weight.shape()[0];
  require_shape(kOp, "bias", bias, {out});
  const Shape result = x.shape().with_last(out);
  require_onto(kOp, x, onto, result);
  if (bias && onto) throw RequestError("linear: a product that is added to something has no bias.");

  Tape& tape = x.tape();
  const Var y = tape.output(result, x.dtype());
  dispatch(kOp, x.value(), [&](auto who, auto zero) {
    using T = decltype(zero);
    kernels::run(
        who,
        linear_product<T>(
            rows<const T>(x), elements<const T>(weight), rows<T>(y), rows_or_none<const T>(onto)));
    if (bias) {
      kernels::run(who,
                   kernels::BiasForward<T>{.y = rows<T>(y), .bias = elements<const Wide<T>>(bias)});
    }
  });
  tape.pin(x);
  tape.pin(weight);
  tape.record_patient(kOp, {x, weight, bias, onto}, {y}, [=](Backward& b) {
    const Tensor dy = b.grad(y);
    b.pass(onto, y);
    const WantedRows dx = wanted(b, x);
    const WantedRows dbias = wanted(b, bias);
    const Scratch partials = b.scratch(partial_shape(dy, out, bool(dbias)), wide(dy.dtype));
    dispatch(kOp, dy, [&](auto who, auto zero) {
      using T = decltype(zero);
      const auto dys = rows<const T>(dy);
      if (dx) {
        kernels::run(
            who, input_gradient<T>(dys, elements<const T>(weight), dx.template rows<T>(), dx.into));
      }
      if (dbias) {
        kernels::run(who,
                     kernels::BiasBackward<T>{.dy = dys,
                                              .dbias = dbias.template data<Wide<T>>(),
                                              .into = dbias.into,
                                              .partials = elements<Wide<T>>(partials.tensor())});
      }
    });
    if (b.wants(weight)) b.rest(weight, y, put_weight_gradient(kOp, dy, x, weight));
  });
  return y;
}

}  // namespace norma
