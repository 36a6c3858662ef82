// Norms without gain and eps, applied to tensors, for properties that are exact only so.
#pragma once

#include <functional>

#include "norma/ops/l2_norm.h"
#include "norma/ops/layer_norm.h"
#include "norma/ops/rms_norm.h"
#include "norma/ops/scale_norm.h"
#include "tests/support/run_op.h"

namespace norma::test {

inline constexpr double kNoEps = 1e-30;

using Op = std::function<Var(Var)>;

/// a·x + shift(r, c)
template <class F>
OwnedTensor moved(const Tensor& x, double a, F&& shift) {
  return tabulated(
      x.shape, x.dtype, [&](Index r, Index c) { return a * value_at(x, r, c) + shift(r, c); });
}
inline OwnedTensor scaled(const Tensor& x, double a) {
  return moved(x, a, [](Index, Index) { return 0.0; });
}
inline OwnedTensor shifted(const Tensor& x, double b) {
  return moved(x, 1, [&](Index, Index) { return b; });
}

inline OwnedTensor image(const Op& op, const Tensor& x) {
  return run_op([&](Tape& tape) { return op(tape.constant(x)); });
}

inline Var plain_layer(Var x) { return layer_norm(x, {}, {}, {.eps = kNoEps}); }
inline Var plain_rms(Var x) { return rms_norm(x, {}, {.eps = kNoEps}); }
inline Var plain_l2(Var x) { return l2_norm(x, {}, {.eps = kNoEps}); }
inline Var plain_scale(Var x) { return scale_norm(x, {}, {.eps = kNoEps}); }

/// Takes the mean out of every row.
inline void center_rows(const Tensor& x) {
  const Index cols = x.shape.cols();
  for (Index r = 0; r < x.shape.rows(); ++r) {
    double sum = 0;
    for (Index c = 0; c < cols; ++c) sum += value_at(x, r, c);
    for (Index c = 0; c < cols; ++c) {
      set_value(x, r, c, value_at(x, r, c) - sum / static_cast<double>(cols));
    }
  }
}

}  // namespace norma::test
