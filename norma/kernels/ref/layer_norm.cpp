#include "norma/kernels/layer_norm.h"

#include <algorithm>
#include <cmath>

namespace norma::kernels {

namespace {

template <class T>
T factor(const T* gain, Index place, double offset) {
  return gain == nullptr ? T{1} : static_cast<T>(offset) + gain[place];
}

}  // namespace

template <class T>
void run(Ref, const LayerNormForward<T>& a) {
  const Index groups = a.x.cols / a.group;
  const auto count = static_cast<T>(a.group);
  for (Index r = 0; r < a.x.rows; ++r) {
    for (Index g = 0; g < groups; ++g) {
      const Index at = g * a.group;
      const T first = a.x(r, at);  // sums start here: a constant group has its value as mean
      T sum = 0;
      for (Index c = 0; c < a.group; ++c) sum += a.x(r, at + c) - first;
      const T mean = first + sum / count;
      T rest = 0;
      for (Index c = 0; c < a.group; ++c) rest += a.x(r, at + c) - mean;
      const T shift = rest / count;
      T squares = 0;
      for (Index c = 0; c < a.group; ++c) {
        const T d = (a.x(r, at + c) - mean) - shift;
        squares += d * d;
      }
      const T rstd = 1 / std::sqrt(squares / count + static_cast<T>(a.eps));
      a.mean[r * groups + g] = mean;
      a.shift[r * groups + g] = shift;
      a.rstd[r * groups + g] = rstd;
      for (Index c = 0; c < a.group; ++c) {
        const Index place = a.gain_per_column ? at + c : c;
        const T xhat = ((a.x(r, at + c) - mean) - shift) * rstd;
        const T bias = a.bias == nullptr ? T{0} : a.bias[place];
        a.y(r, at + c) = xhat * factor(a.gain, place, a.gain_offset) + bias;
      }
    }
  }
}

template <class T>
void run(Ref, const LayerNormBackward<T>& a) {
  const Index groups = a.x.cols / a.group;
  const Index gains = a.gain_per_column ? a.x.cols : a.group;
  const auto count = static_cast<T>(a.group);
  if (a.dgain != nullptr && a.dgain_into == Into::set) std::fill(a.dgain, a.dgain + gains, T{0});
  if (a.dbias != nullptr && a.dbias_into == Into::set) std::fill(a.dbias, a.dbias + gains, T{0});
  for (Index r = 0; r < a.x.rows; ++r) {
    for (Index g = 0; g < groups; ++g) {
      const Index at = g * a.group;
      const T mean = a.mean[r * groups + g];
      const T shift = a.shift[r * groups + g];
      const T rstd = a.rstd[r * groups + g];
      T sum = 0;  // Σ dy·gain over the group
      T dot = 0;  // Σ dy·gain·x̂
      for (Index c = 0; c < a.group; ++c) {
        const Index place = a.gain_per_column ? at + c : c;
        const T xhat = ((a.x(r, at + c) - mean) - shift) * rstd;
        const T ghat = a.dy(r, at + c) * factor(a.gain, place, a.gain_offset);
        sum += ghat;
        dot += ghat * xhat;
        if (a.dgain != nullptr) a.dgain[place] += a.dy(r, at + c) * xhat;
        if (a.dbias != nullptr) a.dbias[place] += a.dy(r, at + c);
      }
      if (!a.dx) continue;
      for (Index c = 0; c < a.group; ++c) {
        const Index place = a.gain_per_column ? at + c : c;
        const T xhat = ((a.x(r, at + c) - mean) - shift) * rstd;
        const T ghat = a.dy(r, at + c) * factor(a.gain, place, a.gain_offset);
        const T value = rstd * (ghat - sum / count - xhat * (dot / count));
        T& slot = a.dx(r, at + c);
        slot = a.dx_into == Into::add ? slot + value : value;
      }
    }
  }
}

template void run(Ref, const LayerNormForward<float>&);
template void run(Ref, const LayerNormForward<double>&);
template void run(Ref, const LayerNormBackward<float>&);
template void run(Ref, const LayerNormBackward<double>&);

}  // namespace norma::kernels
