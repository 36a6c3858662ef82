#include "norma/kernels/l2_norm.h"

#include <algorithm>
#include <cmath>

namespace norma::kernels {

template <class T>
void run(Ref, const L2NormForward<T>& a) {
  const Index groups = a.x.cols / a.group;
  const auto scale = static_cast<T>(a.gain_scale);
  for (Index r = 0; r < a.x.rows; ++r) {
    for (Index g = 0; g < groups; ++g) {
      const Index at = g * a.group;
      T sum = 0;
      for (Index c = 0; c < a.group; ++c) sum += a.x(r, at + c) * a.x(r, at + c);
      const T rnorm = sum == 0 ? T{0} : 1 / std::sqrt(sum + static_cast<T>(a.eps));
      a.rnorm[r * groups + g] = rnorm;
      for (Index c = 0; c < a.group; ++c) {
        const T gain = a.gain == nullptr ? T{1} : a.gain[(at + c) % a.gains];
        a.y(r, at + c) = a.x(r, at + c) * rnorm * (scale * gain);
      }
    }
  }
}

template <class T>
void run(Ref, const L2NormBackward<T>& a) {
  const Index groups = a.x.cols / a.group;
  const auto scale = static_cast<T>(a.gain_scale);
  if (a.dgain != nullptr && a.dgain_into == Into::set) std::fill(a.dgain, a.dgain + a.gains, T{0});
  for (Index r = 0; r < a.x.rows; ++r) {
    for (Index g = 0; g < groups; ++g) {
      const Index at = g * a.group;
      const T rnorm = a.rnorm[r * groups + g];
      T dot = 0;  // ⟨x/n, s·dy⟩
      for (Index c = 0; c < a.group; ++c) {
        const T gain = a.gain == nullptr ? T{1} : a.gain[(at + c) % a.gains];
        const T unit = a.x(r, at + c) * rnorm;
        dot += unit * scale * gain * a.dy(r, at + c);
        if (a.dgain != nullptr) a.dgain[(at + c) % a.gains] += scale * unit * a.dy(r, at + c);
      }
      if (!a.dx) continue;
      for (Index c = 0; c < a.group; ++c) {
        const T gain = a.gain == nullptr ? T{1} : a.gain[(at + c) % a.gains];
        const T unit = a.x(r, at + c) * rnorm;
        const T value = rnorm * (scale * gain * a.dy(r, at + c) - unit * dot);
        T& slot = a.dx(r, at + c);
        slot = a.dx_into == Into::add ? slot + value : value;
      }
    }
  }
}

template void run(Ref, const L2NormForward<float>&);
template void run(Ref, const L2NormForward<double>&);
template void run(Ref, const L2NormBackward<float>&);
template void run(Ref, const L2NormBackward<double>&);

}  // namespace norma::kernels
