#include "norma/ops/rope.h"

#include <cmath>

#include "norma/ops/dispatch.h"
#include "norma/tensor/plain.h"

namespace norma {

RopeTable::RopeTable(RopeSpec spec, Index positions, DType dtype, Device device)
    : spec_(spec), dtype_(wide(dtype)), device_(device) {
  if (spec.head < 2 || spec.head % 2 != 0) {
    throw RequestError(
        say("rope: the head width must be even and at least 2, got ", spec.head, "."));
  }
  if (!(spec.base > 0)) {
    throw RequestError(say("rope: the base must be positive, got ", spec.base, "."));
  }
  if (dtype_ != DType::f32 && dtype_ != DType::f64) {
    throw RequestError(say("rope: the table must be f32 or f64, got ", name_of(dtype), "."));
  }
  reserve(positions);
}

void RopeTable::reserve(Index positions) {
  if (positions <= positions_) return;
  const Index pairs = spec_.head / 2;
  cosine_ = OwnedTensor({positions, pairs}, dtype_, device_);
  sine_ = OwnedTensor({positions, pairs}, dtype_, device_);
  positions_ = positions;
  if (planning()) return;
  const OwnedTensor cosines({positions, pairs}, dtype_);
  const OwnedTensor sines({positions, pairs}, dtype_);
  const auto angle = [&](Index p, Index j) {
    const double exponent = -2.0 * static_cast<double>(j) / static_cast<double>(spec_.head);
    return static_cast<double>(p) * std::pow(spec_.base, exponent);
  };
  // Entry k of the defective program's table: sin, cos, sin, cos, ...
  const auto mixed = [&](Index p, Index k) {
    return k % 2 == 0 ? std::sin(angle(p, k / 2)) : std::cos(angle(p, k / 2));
  };
  const bool defect = spec_.layout == RopeLayout::nvidia_defect;
  for (Index p = 0; p < positions; ++p) {
    for (Index j = 0; j < pairs; ++j) {
      set_value(cosines.tensor, p, j, defect ? mixed(p, pairs + j) : std::cos(angle(p, j)));
      set_value(sines.tensor, p, j, defect ? mixed(p, j) : std::sin(angle(p, j)));
    }
  }
  copy(cosines.tensor, cosine());
  copy(sines.tensor, sine());
}

void RopeTable::require(std::string_view op, Var x, Index offset) const {
  require_float(op, "x", x);
  if (wide(x.dtype()) != dtype_) {
    throw RequestError(say(op,
                           ": x must be ",
                           name_of(dtype_),
                           " like the table of angles, got ",
                           name_of(x.dtype()),
                           "."));
  }
  if (x.value().device != device_) {
    throw RequestError(say(op,
                           ": x lies on ",
                           name_of(x.value().device),
                           ", the table of angles on ",
                           name_of(device_),
                           "."));
  }
  if (x.shape().rank() < 2) throw ShapeError(op, "x", "(..., T, C)", x.shape().text());
  require_divides(op, "the head width", spec_.head, "the width", x.shape().cols());
  const Index steps = x.shape()[-2];
  if (offset < 0 || offset + steps > positions_) {
    throw RequestError(say(op,
                           ": positions ",
                           offset,
                           " to ",
                           offset + steps - 1,
                           " are wanted, the table holds 0 to ",
                           positions_ - 1,
                           "; call reserve() before."));
  }
}

Var rope(Var x, const RopeTable& table, Index offset) {
  constexpr std::string_view kOp = "rope";
  table.require(kOp, x, offset);

  Tape& tape = x.tape();
  const Index steps = x.shape()[-2];
  const Var y = tape.output(x.shape(), x.dtype());
  dispatch(kOp, x.value(), [&](auto who, auto zero) {
    using T = decltype(zero);
    kernels::run(who,
                 kernels::Rope<T>{.x = rows<const T>(x),
                                  .y = rows<T>(y),
                                  .into = Into::set,
                                  .factors = table.factors<T>(steps, offset),
                                  .transposed = false});
  });
  tape.record(kOp, {x}, {y}, [=, angles = &table](Backward& b) {
    const Tensor dy = b.grad(y);
    const WantedRows dx = wanted(b, x);
    dispatch(kOp, dy, [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(who,
                   kernels::Rope<T>{.x = rows<const T>(dy),
                                    .y = dx.rows<T>(),
                                    .into = dx.into,
                                    .factors = angles->factors<T>(steps, offset),
                                    .transposed = true});
    });
  });
  return y;
}

}  // namespace norma
