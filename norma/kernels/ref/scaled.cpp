#include "norma/kernels/scaled.h"

namespace norma::kernels {

template <class T>
void run(Ref, const PutScaled<T>& a) {
  for (Index r = 0; r < a.to.rows; ++r) {
    const T factor = a.shares == nullptr ? *a.factor : *a.factor * a.shares[r];
    for (Index c = 0; c < a.to.cols; ++c) {
      const T value = factor * a.from(r, c);
      a.to(r, c) = a.into == Into::add ? a.to(r, c) + value : value;
    }
  }
}

template void run(Ref, const PutScaled<float>&);
template void run(Ref, const PutScaled<double>&);

}  // namespace norma::kernels
