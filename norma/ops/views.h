// Other views of the same memory: nothing is computed and nothing is copied.
#pragma once

#include <array>
#include <span>

#include "norma/autograd/var.h"

namespace norma {

/// Fills `parts` with the columns of x (..., C) in parts of the given widths, which must sum to C.
/// Parts are views with strided rows. Their gradients are written straight into the columns of one
/// tensor; a part that nobody uses contributes zeros.
void split_columns(Var x, std::span<const Index> widths, std::span<Var> parts);

/// const auto [q, k, v] = split_columns(qkv, {C, C, C});
template <std::size_t kParts>
std::array<Var, kParts> split_columns(Var x, const Index (&widths)[kParts]) {
  std::array<Var, kParts> parts;
  split_columns(x, widths, parts);
  return parts;
}

/// The elements of x in another shape of the same count. A strided x is refused: its rows do not
/// lie one after another. The gradient passes through.
Var reshape(Var x, Shape shape);

}  // namespace norma
