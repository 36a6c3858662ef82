// How far weights turn in a step: the only measure in which optimizers with different units of
// learning rate can be compared on scale-invariant weights.
#pragma once

#include <vector>

#include "norma/nn/param_store.h"
#include "norma/tensor/buffer.h"

namespace norma {

/// The angles of one class of parameters, in radians.
struct Angles {
  ParamClass kind = ParamClass::other;
  Index count = 0;  // vectors, or matrices
  double mean = 0;
  double p95 = 0;  // 95 % of them are at most this
};

/// φ = 2·asin(|ŵ' − ŵ|/2), ŵ = w/|w|: for every vector of a unit parameter, and for every other
/// parameter of two or more dimensions as one vector.
class AngleMeter {
 public:
  /// Copies the values; call it before the step.
  void before(const ParamStore& params);
  /// One entry per class that has angles, in the order of ParamClass. Throws Error without a
  /// matching call of before.
  std::vector<Angles> after(const ParamStore& params) const;
  std::size_t bytes() const { return values_.buffer.bytes(); }

 private:
  OwnedTensor values_;
};

}  // namespace norma
