#include "norma/kernels/softcap.h"

#include <cmath>

namespace norma::kernels {

template <class T>
void run(Ref, const SoftcapForward<T>& a) {
  const auto cap = static_cast<T>(a.cap);
  for (Index r = 0; r < a.x.rows; ++r) {
    for (Index c = 0; c < a.x.cols; ++c) a.y(r, c) = cap * std::tanh(a.x(r, c) / cap);
  }
}

template <class T>
void run(Ref, const SoftcapBackward<T>& a) {
  const auto cap = static_cast<T>(a.cap);
  for (Index r = 0; r < a.x.rows; ++r) {
    for (Index c = 0; c < a.x.cols; ++c) {
      const T tanh_x = std::tanh(a.x(r, c) / cap);
      const T value = a.dy(r, c) * (1 - tanh_x * tanh_x);
      T& slot = a.dx(r, c);
      slot = a.dx_into == Into::add ? slot + value : value;
    }
  }
}

template void run(Ref, const SoftcapForward<float>&);
template void run(Ref, const SoftcapForward<double>&);
template void run(Ref, const SoftcapBackward<float>&);
template void run(Ref, const SoftcapBackward<double>&);

}  // namespace norma::kernels
