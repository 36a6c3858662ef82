// An attention of random numbers on a GPU, and the ways to compute it.
#pragma once

#include <cmath>

#include "norma/device/device.h"
#include "norma/kernels/attention.h"
#include "norma/tensor/plain.h"
#include "tests/support/expect.h"
#include "tests/support/plain_attention.h"
#include "tests/support/values.h"

namespace norma::test {

using kernels::AttentionBackward;
using kernels::AttentionForward;
using kernels::Cuda;
using kernels::Rows;

inline constexpr Device kGpu{DeviceKind::cuda};

/// As a layer has it: q, k and v are columns of one matrix, which has eight more behind them, and
/// so has o. Heads have factors of their own, unless the shape has one for all of them.
class GpuAttention {
 public:
  static constexpr Index kBehind = 8;
  const AttentionShape shape;

  explicit GpuAttention(const AttentionShape& of)
      : shape(of),
        qkv_(copy_of(normals(all_columns(), DType::bf16, 1).tensor, kGpu)),
        dout_(copy_of(normals({rows(), width(0)}, DType::bf16, 2).tensor, kGpu)),
        factors_({shape.heads}, DType::f32, kGpu),
        o_({rows(), width(0) + kBehind}, DType::bf16, kGpu),
        lse_({shape.batch, shape.heads, shape.queries}, DType::f32, kGpu) {
    const OwnedTensor factors({shape.heads}, DType::f32);
    for (Index h = 0; h < shape.heads; ++h) {
      const double own = 0.1 + 0.02 * static_cast<double>(h % 4);
      set_value(factors.tensor, 0, h, shape.uniform_factor != 0 ? shape.uniform_factor : own);
    }
    copy(factors.tensor, factors_.tensor);
    if constexpr (device::kBuiltWithCuda) run(Cuda{}, forward());
  }

  /// Into o() and lse().
  AttentionForward<Bf16> forward() const {
    return {.shape = shape,
            .q = part(qkv_, 0),
            .k = part(qkv_, 1),
            .v = part(qkv_, 2),
            .head_factor = factors_.tensor.as<float>(),
            .o = whole(o_),
            .lse = lse_.tensor.as<float>(),
            .scratch = nullptr};
  }
  /// (rows, heads · width and kBehind more).
  const Tensor& o() const { return o_.tensor; }
  const Tensor& lse() const { return lse_.tensor; }
  const Tensor& factors() const { return factors_.tensor; }

  Index rows() const { return shape.batch * shape.queries; }
  /// Of q, k, v and what is behind them: how wide, and where they begin.
  Index width(Index i) const {
    return i == 3 ? kBehind : (i == 0 ? shape.heads : shape.kv_heads) * shape.head_width;
  }
  Index begin(Index i) const { return i == 0 ? 0 : begin(i - 1) + width(i - 1); }
  Shape all_columns() const { return {rows(), begin(3) + kBehind}; }

  /// dq, dk and dv, in a matrix like that of q, k and v that held this number before.
  OwnedTensor gradient(const OwnedTensor& scratch, bool joint, double before) const {
    const OwnedTensor to(all_columns(), DType::bf16, kGpu);
    fill(to.tensor, before);
    if constexpr (device::kBuiltWithCuda) {
      run(Cuda{},
          AttentionBackward<Bf16>{.shape = shape,
                                  .q = part(qkv_, 0),
                                  .k = part(qkv_, 1),
                                  .v = part(qkv_, 2),
                                  .head_factor = factors_.tensor.as<float>(),
                                  .o = whole(o_),
                                  .lse = lse_.tensor.as<float>(),
                                  .dout = whole(dout_),
                                  .dq = part(to, 0),
                                  .dq_into = Into::set,
                                  .dk = part(to, 1),
                                  .dk_into = Into::set,
                                  .dv = part(to, 2),
                                  .dv_into = Into::set,
                                  .dhead_factor = nullptr,
                                  .scratch = scratch.tensor.as<float>(),
                                  .joint = joint});
    }
    return host_copy(to.tensor);
  }

 private:
  Rows<Bf16> part(const OwnedTensor& all, Index i) const {
    const Index stride = all.tensor.shape.cols();
    return {all.tensor.as<Bf16>() + begin(i), rows(), width(i), stride};
  }
  Rows<Bf16> whole(const OwnedTensor& of) const {
    return {of.tensor.as<Bf16>(), rows(), width(0), of.tensor.shape.cols()};
  }

  OwnedTensor qkv_, dout_, factors_, o_, lse_;
};

}  // namespace norma::test
