// Kernels of cross_entropy; the formula and the contract are in norma/ops/cross_entropy.h.
#pragma once

#include <cstdint>

#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

/// Loss of every token and the gradient of their weighted sum, in one go while the logits are at
/// hand. du may be the same memory as u.
template <class T>
struct CrossEntropy {
  Rows<const T> u;              // (N, V)
  const std::int32_t* targets;  // (N), −1: ignored; null with soft targets
  Rows<const T> soft;           // (N, V), or no data
  const T* scale;               // (V): z0 = scale · u, or null: 1
  const T* du_scale;            // (V): du = du_scale · dz0; null exactly where scale is
  double smoothing;
  double softcap;  // 0: none
  double z_loss;
  double weight;  // of a token in the loss: 1 / tokens
  Rows<T> du;
  T* token_loss;  // (N), not weighted
  T* dscale;      // (V), or null: not wanted
  T* partials;    // (RowChunks(N).count, V) when dscale is wanted
  T* scratch;     // (V) per thread
};
template <class T>
void run(Ref, const CrossEntropy<T>& a);
void run(Cpu, const CrossEntropy<float>& a);

/// scale = mult · stored;  du_scale = (scale / mean(scale))^power, or scale itself when power is 0.
template <class T>
struct LogitScales {
  const T* stored;
  Index count;
  double mult;
  double power;
  T* scale;
  T* du_scale;
};
template <class T>
void run(Ref, const LogitScales<T>& a);

}  // namespace norma::kernels
