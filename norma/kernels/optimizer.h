// The squared norm of a flat span, in pieces.
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
template <class T>
void run(Cuda, const SquaredNorm<T>& a);

}  // namespace norma::kernels
