#include "norma/ops/weight_norm.h"

#include "norma/kernels/weight_norm.h"
#include "norma/ops/dispatch.h"

namespace norma {

Var weight_norm(Var v, Var g, WeightNormSpec spec) {
  constexpr std::string_view kOp = "weight_norm";
  require_float(kOp, "v", v);
  require_vector_type(kOp, v, "g", g);
  if (v.shape().rank() != 2) {
    throw ShapeError(kOp, "v", "a matrix (rows, columns)", v.shape().text());
  }
  const bool columns = spec.axis == WeightAxis::columns;
  const Index vectors = columns ? v.shape()[1] : v.shape()[0];
  require_shape(kOp, "g", g, {vectors});

  Tape& tape = v.tape();
  const Var w = tape.output(v.shape(), v.dtype(), wide(v.dtype()));
  const Tensor norm = tape.saved({vectors}, wide(v.dtype()));
  dispatch(kOp, v.value(), [&](auto who, auto zero) {
    using T = decltype(zero);
    kernels::run(who,
                 kernels::WeightNormForward<T>{.v = rows<const T>(v),
                                               .g = elements<const Wide<T>>(g),
                                               .w = rows<T>(w),
                                               .norm = elements<Wide<T>>(norm),
                                               .columns = columns});
  });
  tape.pin(v);
  tape.pin(g);
  tape.record(kOp, {v, g}, {w}, [=](Backward& b) {
    const Tensor dw = b.grad(w);
    const WantedRows dv = wanted(b, v);
    const WantedRows dg = wanted(b, g);
    dispatch(kOp, v.value(), [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(who,
                   kernels::WeightNormBackward<T>{.v = rows<const T>(v),
                                                  .g = elements<const Wide<T>>(g),
                                                  .norm = elements<const Wide<T>>(norm),
                                                  .dw = rows<const Wide<T>>(dw),
                                                  .dv = dv.rows<Wide<T>>(),
                                                  .dv_into = dv.into,
                                                  .dg = dg.data<Wide<T>>(),
                                                  .dg_into = dg.into,
                                                  .columns = columns});
    });
  });
  return w;
}

}  // namespace norma
