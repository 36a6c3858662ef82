#include <algorithm>

#include "norma/kernels/sum_work.h"

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

template <class T>
void run(Ref, const ScaleBy<T>& a) {
  for (Index i = 0; i < a.count; ++i) a.x[i] *= static_cast<T>(*a.factor);
}

template void run(Ref, const SquaredNorm<float>&);
template void run(Ref, const SquaredNorm<double>&);
template void run(Ref, const ScaleBy<float>&);
template void run(Ref, const ScaleBy<double>&);

}  // namespace norma::kernels
