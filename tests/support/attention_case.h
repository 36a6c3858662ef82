// One attention with its inputs, output and gradients.
#pragma once

#include <optional>

#include "norma/autograd/tape.h"
#include "norma/ops/attention.h"
#include "norma/ops/rms_norm.h"
#include "tests/support/values.h"

namespace norma::test {

/// Inputs of one attention, its output and its gradients for a fixed random seed.
class AttentionCase {
 public:
  AttentionCase(Shape q_shape, Shape kv_shape, DType dtype)
      : q(q_shape, dtype, 1),
        k(kv_shape, dtype, 2),
        v(kv_shape, dtype, 3),
        seed(normals(q_shape, dtype, 4)) {}
  /// q and k through a norm per head first, if a head width is given.
  void operator()(AttentionSpec spec, Index norm_width = 0) {
    for (TestLeaf* leaf : {&q, &k, &v}) leaf->fresh = true;
    tape.reset();
    AttentionExtras extras;
    if (lengths) extras.lengths = tape.constant(lengths->tensor);
    Var queries = tape.watch(q);
    Var keys = tape.watch(k);
    if (norm_width > 0) {
      queries = rms_norm(queries, {}, {.eps = 1e-30, .group = norm_width});
      keys = rms_norm(keys, {}, {.eps = 1e-30, .group = norm_width});
    }
    const Var out = attention(queries, keys, tape.watch(v), spec, extras);
    y = copy_of(out.value());
    tape.backward({&out, 1}, {&seed.tensor, 1}, {});
  }
  Tape tape;
  TestLeaf q, k, v;
  OwnedTensor seed, y;
  std::optional<OwnedTensor> lengths;
};

/// Rows [first, first + count) of a tensor with contiguous rows.
inline Tensor rows(const Tensor& t, Index first, Index count) {
  auto* data = static_cast<std::byte*>(t.data) +
               static_cast<std::size_t>(first * t.row_stride) * size_of(t.dtype);
  return Tensor(data, {count, t.shape.cols()}, t.dtype);
}

}  // namespace norma::test
