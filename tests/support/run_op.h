// One op on a tape of its own.
#pragma once

#include "norma/autograd/tape.h"
#include "tests/support/values.h"

namespace norma::test {

/// y = f(tape) and, where a seed is given, backward from it: gradients land in the watched leaves.
template <class F>
OwnedTensor run_op(F&& f, const Tensor& seed = {}) {
  Tape tape;
  const Var y = f(tape);
  OwnedTensor result = copy_of(y.value());
  if (seed) tape.backward({&y, 1}, {&seed, 1}, {});
  return result;
}

/// The values f(row, col) in a tensor.
template <class F>
OwnedTensor tabulated(Shape shape, DType dtype, F&& f) {
  OwnedTensor owned(shape, dtype);
  for_each_place(shape, [&](Index r, Index c) { set_value(owned.tensor, r, c, f(r, c)); });
  return owned;
}

}  // namespace norma::test
