#include "tests/support/toy_ops.h"

#include "norma/tensor/plain.h"
#include "tests/support/values.h"

namespace norma::test {

namespace {

/// Sets or adds value(row, col) where the tape wants the gradient of an input.
template <class F>
void give(Backward& b, Var input, F&& value) {
  if (!b.wants(input)) return;
  const Backward::Target to = b.into(input);
  for_each_place(to.grad.shape, [&](Index r, Index c) {
    const double former = to.into == Into::add ? value_at(to.grad, r, c) : 0;
    set_value(to.grad, r, c, former + value(r, c));
  });
}

/// y(row, col) = value(row, col), of the shape of `like`.
template <class F>
Var compute(Var like, F&& value) {
  const Var y = like.tape().output(like.shape(), like.dtype());
  for_each_place(y.shape(), [&](Index r, Index c) { set_value(y.value(), r, c, value(r, c)); });
  return y;
}

}  // namespace

Var plus(Var a, Var b) {
  const Tensor left = a.value();
  const Tensor right = b.value();
  const Var y =
      compute(a, [&](Index r, Index c) { return value_at(left, r, c) + value_at(right, r, c); });
  a.tape().record("plus", {a, b}, {y}, [=](Backward& back) {
    back.pass(a, y);
    back.pass(b, y);
  });
  return y;
}

Var times(Var a, Var b) {
  const Tensor left = a.value();
  const Tensor right = b.value();
  const Var y =
      compute(a, [&](Index r, Index c) { return value_at(left, r, c) * value_at(right, r, c); });
  a.tape().pin(a);
  a.tape().pin(b);
  a.tape().record("times", {a, b}, {y}, [=](Backward& back) {
    const Tensor dy = back.grad(y);
    give(back, a, [&](Index r, Index c) { return value_at(dy, r, c) * value_at(b.value(), r, c); });
    give(back, b, [&](Index r, Index c) { return value_at(dy, r, c) * value_at(a.value(), r, c); });
  });
  return y;
}

Var scaled(Var x, double factor) {
  const Tensor in = x.value();
  const Var y = compute(x, [&](Index r, Index c) { return factor * value_at(in, r, c); });
  x.tape().record("scaled", {x}, {y}, [=](Backward& back) {
    const Tensor dy = back.grad(y);
    give(back, x, [&](Index r, Index c) { return factor * value_at(dy, r, c); });
  });
  return y;
}

Var reciprocal(Var x) {
  const Tensor in = x.value();
  const Var y = compute(x, [&](Index r, Index c) { return 1 / value_at(in, r, c); });
  x.tape().pin(y);
  x.tape().record("reciprocal", {x}, {y}, [=](Backward& back) {
    const Tensor dy = back.grad(y);
    const Tensor out = y.value();
    give(back, x, [&](Index r, Index c) {
      return -value_at(dy, r, c) * value_at(out, r, c) * value_at(out, r, c);
    });
  });
  return y;
}

Var project(Var x, const Tensor& along) {
  const Var y = x.tape().output({}, x.dtype());
  set_value(y.value(), 0, 0, dot(along, x.value()));
  x.tape().record("project", {x}, {y}, [=](Backward& back) {
    const double dy = value_at(back.grad(y), 0, 0);
    give(back, x, [&](Index r, Index c) { return dy * value_at(along, r, c); });
  });
  return y;
}

Var half_square(Var x) {
  const Var y = x.tape().output({}, x.dtype());
  set_value(y.value(), 0, 0, dot(x.value(), x.value()) / 2);
  x.tape().pin(x);
  x.tape().record("half_square", {x}, {y}, [=](Backward& back) {
    const double dy = value_at(back.grad(y), 0, 0);
    give(back, x, [&](Index r, Index c) { return dy * value_at(x.value(), r, c); });
  });
  return y;
}

Var reshape(Var x, Shape shape) {
  const Var y = x.tape().alias(x, x.value().reshaped(shape));
  x.tape().record("reshape", {x}, {y}, [=](Backward& back) { back.pass(x, y); });
  return y;
}

std::array<Var, 4> split(Var x, std::initializer_list<Index> widths) {
  std::array<Var, 4> parts;
  Index begin = 0;
  std::size_t count = 0;
  for (const Index width : widths) {
    parts[count++] = x.tape().alias(x, x.value().columns(begin, width));
    begin += width;
  }
  x.tape().record_split("split", x, {parts.data(), count});
  return parts;
}

Var join(Var left, Var right) {
  const Index first = left.shape().cols();
  const Index second = right.shape().cols();
  Tape& tape = left.tape();
  const Var y = tape.output(left.shape().with_last(first + second), left.dtype());
  copy(left.value(), y.value().columns(0, first));
  copy(right.value(), y.value().columns(first, second));
  tape.record("join", {left, right}, {y}, [=](Backward& back) {
    const Tensor dy = back.grad(y);
    give(back, left, [&](Index r, Index c) { return value_at(dy, r, c); });
    give(back, right, [&](Index r, Index c) { return value_at(dy, r, first + c); });
  });
  return y;
}

}  // namespace norma::test
