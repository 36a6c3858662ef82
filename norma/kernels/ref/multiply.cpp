#include "norma/kernels/multiply.h"

namespace norma::kernels {

template <class T>
void run(Ref, const Multiply<T>& a) {
  for (Index r = 0; r < a.to.rows; ++r) {
    for (Index c = 0; c < a.to.cols; ++c) {
      const T value = a.a(r, c) * a.b(r, c);
      T& slot = a.to(r, c);
      slot = a.into == Into::add ? slot + value : value;
    }
  }
}

template void run(Ref, const Multiply<float>&);
template void run(Ref, const Multiply<double>&);

}  // namespace norma::kernels
