#include "norma/kernels/optimizer.h"

#include <algorithm>

namespace norma::kernels {

template <class T>
void run(Ref, const SquaredNorm<T>& a) {
  for (Index piece = 0; piece < norm_pieces(a.count); ++piece) {
    double sum = 0;
    for (Index i = piece * kNormPiece; i < std::min(a.count, (piece + 1) * kNormPiece); ++i) {
      sum += static_cast<double>(a.g[i]) * static_cast<double>(a.g[i]);
    }
    a.partials[piece] = sum;
  }
}

template void run(Ref, const SquaredNorm<float>&);
template void run(Ref, const SquaredNorm<double>&);

}  // namespace norma::kernels
