#include "norma/kernels/optimizer.h"

#include <algorithm>
#include <cmath>

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
void run(Ref, const AdamWStep<T>& a) {
  const auto t = static_cast<double>(a.t);
  const double step = a.lr / (1 - std::pow(a.beta1, t));
  const double root = std::sqrt(1 - std::pow(a.beta2, t));
  for (Index i = 0; i < a.count; ++i) {
    const double g = static_cast<double>(a.g[i]) * a.grad_scale;
    const double m = a.beta1 * static_cast<double>(a.m[i]) + (1 - a.beta1) * g;
    const double v = a.beta2 * static_cast<double>(a.v[i]) + (1 - a.beta2) * g * g;
    const double kept = static_cast<double>(a.w[i]) * (1 - a.lr * a.decay);
    a.m[i] = static_cast<T>(m);
    a.v[i] = static_cast<T>(v);
    a.w[i] = static_cast<T>(kept - step * m / (std::sqrt(v) / root + a.eps));
  }
}

template void run(Ref, const SquaredNorm<float>&);
template void run(Ref, const SquaredNorm<double>&);
template void run(Ref, const AdamWStep<float>&);
template void run(Ref, const AdamWStep<double>&);

}  // namespace norma::kernels
