#include "norma/kernels/rms_norm.h"

#include <algorithm>
#include <cmath>

namespace norma::kernels {

template <class T>
void run(Ref, const RmsNormForward<T>& a) {
  const Index groups = a.x.cols / a.group;
  for (Index r = 0; r < a.x.rows; ++r) {
    for (Index g = 0; g < groups; ++g) {
      const Index at = g * a.group;
      T sum = 0;
      for (Index c = 0; c < a.group; ++c) sum += a.x(r, at + c) * a.x(r, at + c);
      const T rstd = 1 / std::sqrt(sum / static_cast<T>(a.group) + static_cast<T>(a.eps));
      a.rstd[r * groups + g] = rstd;
      for (Index c = 0; c < a.group; ++c) {
        const T gain = a.gain == nullptr
                           ? T{1}
                           : static_cast<T>(a.gain_offset) + a.gain[a.gain_per_column ? at + c : c];
        a.y(r, at + c) = a.x(r, at + c) * rstd * gain;
      }
    }
  }
}

template <class T>
void run(Ref, const RmsNormBackward<T>& a) {
  const Index groups = a.x.cols / a.group;
  if (a.dgain != nullptr && a.dgain_into == Into::set) {
    std::fill(a.dgain, a.dgain + (a.gain_per_column ? a.x.cols : a.group), T{0});
  }
  for (Index r = 0; r < a.x.rows; ++r) {
    for (Index g = 0; g < groups; ++g) {
      const Index at = g * a.group;
      const T rstd = a.rstd[r * groups + g];
      T dot = 0;  // mean of dy·gain·x̂ over the group
      for (Index c = 0; c < a.group; ++c) {
        const Index place = a.gain_per_column ? at + c : c;
        const T gain = a.gain == nullptr ? T{1} : static_cast<T>(a.gain_offset) + a.gain[place];
        const T xhat = a.x(r, at + c) * rstd;
        dot += a.dy(r, at + c) * gain * xhat;
        if (a.dgain != nullptr) a.dgain[place] += a.dy(r, at + c) * xhat;
      }
      if (!a.dx) continue;
      dot /= static_cast<T>(a.group);
      for (Index c = 0; c < a.group; ++c) {
        const T gain = a.gain == nullptr
                           ? T{1}
                           : static_cast<T>(a.gain_offset) + a.gain[a.gain_per_column ? at + c : c];
        const T xhat = a.x(r, at + c) * rstd;
        const T value = rstd * (a.dy(r, at + c) * gain - xhat * dot);
        T& slot = a.dx(r, at + c);
        slot = a.dx_into == Into::add ? slot + value : value;
      }
    }
  }
}

template void run(Ref, const RmsNormForward<float>&);
template void run(Ref, const RmsNormForward<double>&);
template void run(Ref, const RmsNormBackward<float>&);
template void run(Ref, const RmsNormBackward<double>&);

}  // namespace norma::kernels
