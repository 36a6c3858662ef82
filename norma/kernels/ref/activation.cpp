#include "norma/kernels/activation.h"

#include "norma/kernels/ref/activation_math.h"

namespace norma::kernels {

template <class T>
void run(Ref, const ActivationForward<T>& a) {
  for (Index r = 0; r < a.x.rows; ++r) {
    for (Index c = 0; c < a.x.cols; ++c) a.y(r, c) = activation_value(a.kind, a.x(r, c));
  }
}

template <class T>
void run(Ref, const ActivationBackward<T>& a) {
  for (Index r = 0; r < a.x.rows; ++r) {
    for (Index c = 0; c < a.x.cols; ++c) {
      const T value = a.dy(r, c) * activation_slope(a.kind, a.x(r, c));
      T& slot = a.dx(r, c);
      slot = a.dx_into == Into::add ? slot + value : value;
    }
  }
  if (a.y) run(Ref{}, ActivationForward<T>{a.x, a.y, a.kind});
}

template void run(Ref, const ActivationForward<float>&);
template void run(Ref, const ActivationForward<double>&);
template void run(Ref, const ActivationBackward<float>&);
template void run(Ref, const ActivationBackward<double>&);

}  // namespace norma::kernels
