// Jacobian-vector and Hessian-vector products for probes. (Vector-Jacobian products are what
// Tape::backward computes.)
//
// Both are four-point differences in f64: of the function for J·v, of its gradient for H·v. With
// the step below their relative error is about 1e-11, far under what a probe needs, and no op has
// to carry a second rule. They cost four forward (or four forward and backward) passes.
#pragma once

#include <functional>
#include <span>

#include "norma/autograd/tape.h"

namespace norma {

/// Builds a function of some leaves on a tape and returns its value.
using TapeFunction = std::function<Var(Tape&)>;

/// A step of `along` (same shape as the leaf's value) in the space of one leaf.
struct Direction {
  Leaf* leaf;
  Tensor along;
};

/// out = Σ ∂f/∂leaf · along, where f may have any shape (that of `out`). All f64.
void jacobian_vector(Tape& tape,
                     const TapeFunction& f,
                     std::span<const Direction> directions,
                     const Tensor& out);

/// outs[i] = row i of the Hessian of the scalar f, restricted to the leaves of `directions`, times
/// the directions. All f64. Gradients in the leaves are used as working memory.
void hessian_vector(Tape& tape,
                    const TapeFunction& f,
                    std::span<const Direction> directions,
                    std::span<const Tensor> outs);

}  // namespace norma
