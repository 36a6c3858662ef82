// Small ops in plain loops, independent of the kernels, out of which cases compose the definition
// of a fused op. They work in any type through double and are slow on purpose (all but own).
//
// The second operand is repeated: its element for (r, c) is (r mod its rows, c mod its columns), so
// it may be a full tensor, a vector over columns, one per place in a group, or a column.
#pragma once

#include "norma/autograd/var.h"

namespace norma::checks::mini {

struct Function {
  double (*value)(double);
  double (*slope)(double);
};

/// The same values in memory of the tape, which an op may work on in place.
Var own(Var x);
/// The values that a narrower type can hold; gradients pass as they are.
Var on_grid(Var x, DType dtype);
Var map(Var x, Function f);
/// factor·x + shift
Var affine(double factor, Var x, double shift = 0);
/// sx·x + sy·y
Var mix(double sx, Var x, double sy, Var y);
Var mul(Var x, Var y);
Var div(Var x, Var y);
/// (rows, 1): the sum over columns of x·y
Var row_dot(Var x, Var y);
/// Every group of columns divided by sqrt(|group|² + eps); group 0 = the whole row.
Var unit(Var x, double eps, Index group = 0);
/// (rows, 1): log Σ exp over columns
Var log_sum_exp(Var x);
/// (1): the sum of all elements
Var total(Var x);

}  // namespace norma::checks::mini
