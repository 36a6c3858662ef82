#include "norma/checks/cases/mini_ops.h"

#include <algorithm>
#include <cmath>

#include "norma/autograd/backward.h"
#include "norma/autograd/tape.h"
#include "norma/tensor/plain.h"

namespace norma::checks::mini {

namespace {

double at(const Tensor& t, Index r, Index c) {
  return value_at(t, r % t.shape.rows(), c % t.shape.cols());
}

void add_at(const Tensor& t, Index r, Index c, double value) {
  const Index row = r % t.shape.rows();
  const Index col = c % t.shape.cols();
  set_value(t, row, col, value_at(t, row, col) + value);
}

template <class F>
void for_each(const Shape& shape, F&& f) {
  for (Index r = 0; r < shape.rows(); ++r) {
    for (Index c = 0; c < shape.cols(); ++c) f(r, c);
  }
}

/// Where to add the gradient of an input; no tensor when it is not wanted.
Tensor gradient_sum(Backward& b, Var input) {
  if (!b.wants(input)) return {};
  const Backward::Target target = b.into(input);
  if (target.into == Into::set) fill(target.grad, 0);
  return target.grad;
}

/// z(r, c) = value(x, y) with slopes by x and by y.
template <class Value, class SlopeX, class SlopeY>
Var zip(Var x, Var y, Value value, SlopeX slope_x, SlopeY slope_y) {
  Tape& tape = x.tape();
  const Var z = tape.output(x.shape(), x.dtype());
  for_each(x.shape(), [&](Index r, Index c) {
    set_value(z.value(), r, c, value(at(x.value(), r, c), at(y.value(), r, c)));
  });
  tape.pin(x);
  tape.pin(y);
  tape.record("mini", {x, y}, {z}, [=](Backward& b) {
    const Tensor dz = b.grad(z);
    const Tensor xs = x.value();
    const Tensor ys = y.value();
    const auto spread = [&](Var input, auto slope) {
      const Tensor grad = gradient_sum(b, input);
      if (!grad) return;
      for_each(xs.shape, [&](Index r, Index c) {
        add_at(grad, r, c, value_at(dz, r, c) * slope(at(xs, r, c), at(ys, r, c)));
      });
    };
    spread(x, slope_x);
    spread(y, slope_y);
  });
  return z;
}

double nothing(double, double) { return 0; }

}  // namespace

Var own(Var x) {
  Tape& tape = x.tape();
  const Var y = tape.output(x.shape(), x.dtype());
  copy(x.value(), y.value());
  tape.record("mini", {x}, {y}, [=](Backward& b) { b.pass(x, y); });
  return y;
}

Var on_grid(Var x, DType dtype) {
  Tape& tape = x.tape();
  const Var y = tape.output(x.shape(), x.dtype());
  const OwnedTensor narrow(x.shape(), dtype);
  convert(x.value(), narrow.tensor);
  convert(narrow.tensor, y.value());
  tape.record("mini", {x}, {y}, [=](Backward& b) { b.pass(x, y); });
  return y;
}

Var map(Var x, Function f) {
  return zip(
      x,
      x.detach(),
      [=](double v, double) { return f.value(v); },
      [=](double v, double) { return f.slope(v); },
      nothing);
}

Var affine(double factor, Var x, double shift) {
  return zip(
      x,
      x.detach(),
      [=](double v, double) { return factor * v + shift; },
      [=](double, double) { return factor; },
      nothing);
}

Var mix(double sx, Var x, double sy, Var y) {
  return zip(
      x,
      y,
      [=](double u, double v) { return sx * u + sy * v; },
      [=](double, double) { return sx; },
      [=](double, double) { return sy; });
}

Var mul(Var x, Var y) {
  return zip(
      x,
      y,
      [](double u, double v) { return u * v; },
      [](double, double v) { return v; },
      [](double u, double) { return u; });
}

Var div(Var x, Var y) {
  return zip(
      x,
      y,
      [](double u, double v) { return u / v; },
      [](double, double v) { return 1 / v; },
      [](double u, double v) { return -u / (v * v); });
}

Var row_dot(Var x, Var y) {
  Tape& tape = x.tape();
  const Var z = tape.output({x.shape().rows(), 1}, x.dtype());
  fill(z.value(), 0);
  for_each(x.shape(), [&](Index r, Index c) {
    add_at(z.value(), r, 0, at(x.value(), r, c) * at(y.value(), r, c));
  });
  tape.pin(x);
  tape.pin(y);
  tape.record("mini", {x, y}, {z}, [=](Backward& b) {
    const Tensor dz = b.grad(z);
    const Tensor xs = x.value();
    const Tensor ys = y.value();
    const auto spread = [&](Var input, const Tensor& other) {
      const Tensor grad = gradient_sum(b, input);
      if (!grad) return;
      for_each(xs.shape,
               [&](Index r, Index c) { add_at(grad, r, c, value_at(dz, r, 0) * at(other, r, c)); });
    };
    spread(x, ys);
    spread(y, xs);
  });
  return z;
}

Var unit(Var x, double eps, Index group) {
  Tape& tape = x.tape();
  const Index width = group == 0 ? x.shape().cols() : group;
  const Var y = tape.output(x.shape(), x.dtype());
  // ⟨s, t⟩ over the group that starts at column c of row r.
  const auto dot = [width](const Tensor& s, const Tensor& t, Index r, Index c) {
    double sum = 0;
    for (Index k = c; k < c + width; ++k) sum += value_at(s, r, k) * value_at(t, r, k);
    return sum;
  };
  for (Index r = 0; r < x.shape().rows(); ++r) {
    for (Index c = 0; c < x.shape().cols(); c += width) {
      const double norm = std::sqrt(dot(x.value(), x.value(), r, c) + eps);
      for (Index k = c; k < c + width; ++k) {
        set_value(y.value(), r, k, value_at(x.value(), r, k) / norm);
      }
    }
  }
  tape.pin(x);
  tape.record("mini", {x}, {y}, [=](Backward& b) {
    const Tensor dy = b.grad(y);
    const Tensor xs = x.value();
    const Tensor dx = gradient_sum(b, x);
    for (Index r = 0; r < xs.shape.rows(); ++r) {
      for (Index c = 0; c < xs.shape.cols(); c += width) {
        const double norm = std::sqrt(dot(xs, xs, r, c) + eps);
        const double along = dot(xs, dy, r, c) / (norm * norm);
        for (Index k = c; k < c + width; ++k) {
          add_at(dx, r, k, (value_at(dy, r, k) - value_at(xs, r, k) * along) / norm);
        }
      }
    }
  });
  return y;
}

Var log_sum_exp(Var x) {
  Tape& tape = x.tape();
  const Var z = tape.output({x.shape().rows(), 1}, x.dtype());
  const auto largest = [](const Tensor& t, Index r) {
    double top = value_at(t, r, 0);
    for (Index c = 1; c < t.shape.cols(); ++c) top = std::max(top, value_at(t, r, c));
    return top;
  };
  const auto sum_above = [](const Tensor& t, Index r, double top) {
    double sum = 0;
    for (Index c = 0; c < t.shape.cols(); ++c) sum += std::exp(value_at(t, r, c) - top);
    return sum;
  };
  for (Index r = 0; r < x.shape().rows(); ++r) {
    const double top = largest(x.value(), r);
    set_value(z.value(), r, 0, top + std::log(sum_above(x.value(), r, top)));
  }
  tape.pin(x);
  tape.record("mini", {x}, {z}, [=](Backward& b) {
    const Tensor dz = b.grad(z);
    const Tensor xs = x.value();
    const Tensor dx = gradient_sum(b, x);
    for (Index r = 0; r < xs.shape.rows(); ++r) {
      const double top = largest(xs, r);
      const double sum = sum_above(xs, r, top);
      for (Index c = 0; c < xs.shape.cols(); ++c) {
        add_at(dx, r, c, value_at(dz, r, 0) * std::exp(value_at(xs, r, c) - top) / sum);
      }
    }
  });
  return z;
}

Var total(Var x) {
  Tape& tape = x.tape();
  const Var z = tape.output({1}, x.dtype());
  double sum = 0;
  for_each(x.shape(), [&](Index r, Index c) { sum += value_at(x.value(), r, c); });
  set_value(z.value(), 0, 0, sum);
  tape.record("mini", {x}, {z}, [=](Backward& b) {
    const double dz = value_at(b.grad(z), 0, 0);
    const Tensor dx = gradient_sum(b, x);
    for_each(dx.shape, [&](Index r, Index c) { add_at(dx, r, c, dz); });
  });
  return z;
}

}  // namespace norma::checks::mini
