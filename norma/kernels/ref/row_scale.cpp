#include "norma/kernels/row_scale.h"

namespace norma::kernels {

template <class T>
void run(Ref, const RowScale<T>& a) {
  for (Index r = 0; r < a.to.rows; ++r) {
    const T factor = static_cast<T>(a.mult) * a.scale[r];
    for (Index c = 0; c < a.to.cols; ++c) a.to(r, c) = factor * a.from(r, c);
  }
}

template <class T>
void run(Ref, const RowScaleBackward<T>& a) {
  const T mult = static_cast<T>(a.mult);
  for (Index r = 0; r < a.d.rows; ++r) {
    const T factor = mult * a.scale[r];
    T sum = 0;
    for (Index c = 0; c < a.d.cols; ++c) {
      sum += a.from(r, c) * a.d(r, c);
      a.d(r, c) *= factor;
    }
    if (a.dscale != nullptr) a.dscale[r] = mult * sum;
  }
}

template void run(Ref, const RowScale<float>&);
template void run(Ref, const RowScale<double>&);
template void run(Ref, const RowScaleBackward<float>&);
template void run(Ref, const RowScaleBackward<double>&);

}  // namespace norma::kernels
