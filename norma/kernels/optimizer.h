// Passes over flat spans of parameters: the norm of the gradient, optimizer steps.
#pragma once

#include "norma/base/types.h"
#include "norma/kernels/exec.h"

namespace norma::kernels {

/// partials[c] = Σ g² over piece c of kNormPiece elements; their sum in order is |g|², the same for
/// any thread count.
inline constexpr Index kNormPiece = 1 << 14;
constexpr Index norm_pieces(Index count) { return (count + kNormPiece - 1) / kNormPiece; }

template <class T>
struct SquaredNorm {
  const T* g;
  Index count;
  double* partials;  // (norm_pieces(count))
};
template <class T>
void run(Ref, const SquaredNorm<T>& a);
void run(Cpu, const SquaredNorm<float>& a);

/// w ·= 1 − lr·decay;  m = β1·m + (1−β1)·g;  v = β2·v + (1−β2)·g²
/// w −= (lr / (1−β1^t)) · m / (√v / √(1−β2^t) + eps),  with g scaled by grad_scale first.
template <class T>
struct AdamWStep {
  T* w;
  const T* g;
  T* m;
  T* v;
  Index count;
  Index t;  // from 1
  double grad_scale;
  double lr;
  double decay;
  double beta1;
  double beta2;
  double eps;
};
template <class T>
void run(Ref, const AdamWStep<T>& a);
void run(Cpu, const AdamWStep<float>& a);

}  // namespace norma::kernels
