// Small ops recorded by the tests themselves, so that the tape is tested without the ops room.
// Any float type, any rows; element by element, slow.
#pragma once

#include <array>
#include <initializer_list>

#include "norma/autograd/backward.h"

namespace norma::test {

Var plus(Var a, Var b);                   // a + b; hands its gradient through
Var times(Var a, Var b);                  // a · b, element by element
Var scaled(Var x, double factor);         // factor · x
Var reciprocal(Var x);                    // 1 / x
Var project(Var x, const Tensor& along);  // the scalar Σ along · x; `along` must outlive backward
Var half_square(Var x);                   // the scalar ½ Σ x²
Var reshape(Var x, Shape shape);          // the same memory in another shape
/// Neighbouring columns, as many as there are widths (at most 4).
std::array<Var, 4> split(Var x, std::initializer_list<Index> widths);
Var join(Var left, Var right);  // columns of both side by side

}  // namespace norma::test
