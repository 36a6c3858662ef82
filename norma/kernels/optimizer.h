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

/// |x|² of a span; partials as in SquaredNorm.
template <class Who, class T>
double squared_norm(Who who, const T* x, Index count, double* partials) {
  run(who, SquaredNorm<T>{x, count, partials});
  double sum = 0;
  for (Index piece = 0; piece < norm_pieces(count); ++piece) sum += partials[piece];
  return sum;
}

}  // namespace norma::kernels
