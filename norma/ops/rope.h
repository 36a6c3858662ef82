// Rotary position embedding.
#pragma once

#include <string_view>

#include "norma/autograd/var.h"
#include "norma/kernels/rope.h"
#include "norma/tensor/buffer.h"

namespace norma {

using kernels::RopeLayout;

struct RopeSpec {
  Index head = 0;       // D, the width of a head: even
  double base = 10000;  // Θ
  RopeLayout layout = RopeLayout::interleaved;
};

/// Cosines and sines of all positions, computed in double and rounded once, for values of type
/// `dtype` on one device: f32 beside bf16. Whoever owns the model owns one and passes it to every
/// rope; it outlives the step.
class RopeTable {
 public:
  RopeTable(RopeSpec spec, Index positions, DType dtype, Device device = {});
  RopeTable(const RopeTable&) = delete;
  RopeTable& operator=(const RopeTable&) = delete;

  /// Makes sure that positions 0 to `positions` − 1 are there. Allocates only to grow; on a GPU it
  /// then waits.
  void reserve(Index positions);

  const RopeSpec& spec() const { return spec_; }
  Index positions() const { return positions_; }
  DType dtype() const { return dtype_; }
  const Tensor& cosine() const { return cosine_.tensor; }  // (positions, D / 2)
  const Tensor& sine() const { return sine_.tensor; }

  /// The table as a kernel reads it, for rows of which every `steps` start again at `offset`.
  template <class T>
  kernels::RopeFactors<T> factors(Index steps, Index offset) const {
    return {cosine().as<const Wide<T>>(),
            sine().as<const Wide<T>>(),
            spec_.head / 2,
            steps,
            offset,
            spec_.layout};
  }
  /// Throws when x (..., T, C) at `offset` does not fit this table; `op` complains.
  void require(std::string_view op, Var x, Index offset) const;

 private:
  RopeSpec spec_;
  Index positions_ = 0;
  DType dtype_;
  Device device_;
  OwnedTensor cosine_;
  OwnedTensor sine_;
};

/// Pair j of every head turns by the angle p·ω_j at position p, ω_j = Θ^(−2j/D):
///   y0 = x0·cos(pω_j) − x1·sin(pω_j),   y1 = x0·sin(pω_j) + x1·cos(pω_j)
///   interleaved    pairs (2j, 2j+1)
///   half_split     pairs (j, j + D/2)
///   nvidia_defect  a known faulty program, as a control: y[2j] = −x[2j+1]·e[D/2 + j],
///                  y[2j+1] = x[2j]·e[j], where e = sin(pω_0), cos(pω_0), sin(pω_1), ...
/// x (..., T, C) f32|f64, C = heads·D, rows may be strided    p = offset + t    y like x
/// saves  nothing (the table stays with its owner)      grads  dx, by the transposed map
Var rope(Var x, const RopeTable& table, Index offset = 0);

}  // namespace norma
