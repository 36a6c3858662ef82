#include "norma/kernels/dyt.h"

#include <algorithm>
#include <cmath>

namespace norma::kernels {

namespace {

template <class T>
T value_of(Squash squash, T u) {
  return squash == Squash::tanh ? std::tanh(u) : std::erf(u);
}

/// f'(u): 1 − tanh² or 2/√π·exp(−u²).
template <class T>
T slope_of(Squash squash, T u) {
  if (squash == Squash::erf) return static_cast<T>(1.1283791670955126) * std::exp(-u * u);
  const T t = std::tanh(u);
  return 1 - t * t;
}

template <class T>
void clear(T* sums, Index n, Into into) {
  if (sums != nullptr && into == Into::set) std::fill(sums, sums + n, T{0});
}

}  // namespace

template <class T>
void run(Ref, const DytForward<T>& a) {
  const T shift = a.s == nullptr ? T{0} : *a.s;
  for (Index r = 0; r < a.x.rows; ++r) {
    for (Index c = 0; c < a.x.cols; ++c) {
      const T gain = a.gain == nullptr ? T{1} : a.gain[c];
      const T bias = a.bias == nullptr ? T{0} : a.bias[c];
      a.y(r, c) = gain * value_of(a.squash, *a.a * a.x(r, c) + shift) + bias;
    }
  }
}

template <class T>
void run(Ref, const DytBackward<T>& a) {
  const T shift = a.s == nullptr ? T{0} : *a.s;
  clear(a.da, 1, a.da_into);
  clear(a.ds, 1, a.ds_into);
  clear(a.dgain, a.x.cols, a.dgain_into);
  clear(a.dbias, a.x.cols, a.dbias_into);
  for (Index r = 0; r < a.x.rows; ++r) {
    for (Index c = 0; c < a.x.cols; ++c) {
      const T x = a.x(r, c);
      const T dy = a.dy(r, c);
      const T u = *a.a * x + shift;
      const T du = dy * (a.gain == nullptr ? T{1} : a.gain[c]) * slope_of(a.squash, u);
      if (a.da != nullptr) *a.da += du * x;
      if (a.ds != nullptr) *a.ds += du;
      if (a.dgain != nullptr) a.dgain[c] += dy * value_of(a.squash, u);
      if (a.dbias != nullptr) a.dbias[c] += dy;
      if (!a.dx) continue;
      T& slot = a.dx(r, c);
      slot = a.dx_into == Into::add ? slot + *a.a * du : *a.a * du;
    }
  }
}

template void run(Ref, const DytForward<float>&);
template void run(Ref, const DytForward<double>&);
template void run(Ref, const DytBackward<float>&);
template void run(Ref, const DytBackward<double>&);

}  // namespace norma::kernels
