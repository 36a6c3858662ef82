#include "norma/ops/multiply.h"

#include "norma/kernels/multiply.h"
#include "norma/ops/dispatch.h"

namespace norma {

namespace {

constexpr std::string_view kOp = "multiply";

void product(const Tensor& a, const Tensor& b, const Tensor& to, Into into) {
  dispatch(kOp, a, [&](auto who, auto zero) {
    using T = decltype(zero);
    kernels::run(
        who,
        kernels::Multiply<T>{
            .a = rows<const T>(a), .b = rows<const T>(b), .to = rows<T>(to), .into = into});
  });
}

}  // namespace

Var multiply(Var a, Var b) {
  require_float(kOp, "a", a);
  require_float(kOp, "b", b);
  require_same_type(kOp, a, "b", b);
  require_shape(kOp, "b", b, a.shape());

  Tape& tape = a.tape();
  const Var y = tape.output(a.shape(), a.dtype());
  product(a.value(), b.value(), y.value(), Into::set);
  tape.pin(a);
  tape.pin(b);
  tape.record(kOp, {a, b}, {y}, [=](Backward& backward) {
    const Tensor dy = backward.grad(y);
    if (const WantedRows da = wanted(backward, a)) product(dy, b.value(), da.grad, da.into);
    if (const WantedRows db = wanted(backward, b)) product(dy, a.value(), db.grad, db.into);
  });
  return y;
}

}  // namespace norma
