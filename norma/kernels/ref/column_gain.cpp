#include "norma/kernels/column_gain.h"

#include <algorithm>

namespace norma::kernels {

template <class T>
void run(Ref, const ColumnGainForward<T>& a) {
  for (Index r = 0; r < a.x.rows; ++r) {
    for (Index c = 0; c < a.x.cols; ++c) {
      a.y(r, c) = a.x(r, c) * (static_cast<T>(a.mult) * a.gain[c / a.block]);
    }
  }
}

template <class T>
void run(Ref, const ColumnGainBackward<T>& a) {
  const auto mult = static_cast<T>(a.mult);
  if (a.dgain != nullptr && a.dgain_into == Into::set) {
    std::fill(a.dgain, a.dgain + a.dy.cols / a.block, T{0});
  }
  for (Index r = 0; r < a.dy.rows; ++r) {
    for (Index c = 0; c < a.dy.cols; ++c) {
      if (a.dgain != nullptr) a.dgain[c / a.block] += a.dy(r, c) * a.x(r, c) * mult;
      if (!a.dx) continue;
      const T value = a.dy(r, c) * (a.gain == nullptr ? mult : mult * a.gain[c / a.block]);
      T& slot = a.dx(r, c);
      slot = a.dx_into == Into::add ? slot + value : value;
    }
  }
}

template void run(Ref, const ColumnGainForward<float>&);
template void run(Ref, const ColumnGainForward<double>&);
template void run(Ref, const ColumnGainBackward<float>&);
template void run(Ref, const ColumnGainBackward<double>&);

}  // namespace norma::kernels
