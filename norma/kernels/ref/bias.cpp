#include "norma/kernels/bias.h"

namespace norma::kernels {

template <class T>
void run(Ref, const BiasForward<T>& a) {
  for (Index r = 0; r < a.y.rows; ++r) {
    for (Index c = 0; c < a.y.cols; ++c) a.y(r, c) += a.bias[c];
  }
}

template <class T>
void run(Ref, const BiasBackward<T>& a) {
  for (Index c = 0; c < a.dy.cols; ++c) {
    T sum = 0;
    for (Index r = 0; r < a.dy.rows; ++r) sum += a.dy(r, c);
    a.dbias[c] = a.into == Into::add ? a.dbias[c] + sum : sum;
  }
}

template void run(Ref, const BiasForward<float>&);
template void run(Ref, const BiasForward<double>&);
template void run(Ref, const BiasBackward<float>&);
template void run(Ref, const BiasBackward<double>&);

}  // namespace norma::kernels
