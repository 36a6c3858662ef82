#include "norma/kernels/add_norm.h"

#include <algorithm>
#include <cmath>

namespace norma::kernels {

namespace {

template <class T>
T factor(const T* gain, Index c, double offset) {
  return gain == nullptr ? T{1} : static_cast<T>(offset) + gain[c];
}

template <class T>
void set_or_add(T& slot, T value, Into into) {
  slot = into == Into::add ? slot + value : value;
}

/// sum = scale·x + b, or the norm of b in its place, for row r.
template <class T>
void add(const AddNormForward<T>& a, Index r) {
  const Index cols = a.sum.cols;
  T rstd = 1;
  if (a.branch.rstd != nullptr) {
    T squares = 0;
    for (Index c = 0; c < cols; ++c) squares += a.b(r, c) * a.b(r, c);
    rstd = 1 / std::sqrt(squares / static_cast<T>(cols) + static_cast<T>(a.branch.eps));
    a.branch.rstd[r] = rstd;
  }
  for (Index c = 0; c < cols; ++c) {
    const T b = a.b(r, c) * rstd * factor(a.branch.gain, c, a.branch.gain_offset);
    a.sum(r, c) = static_cast<T>(a.scale) * a.x(r, c) + b;
  }
}

}  // namespace

template <class T>
void run(Ref, const AddNormForward<T>& a) {
  const Index cols = a.sum.cols;
  const auto count = static_cast<T>(cols);
  for (Index r = 0; r < a.sum.rows; ++r) {
    if (a.x) add(a, r);
    if (!a.y) continue;
    T mean = 0;
    T shift = 0;
    if (a.mean != nullptr) {
      const T first = a.sum(r, 0);  // sums start here: a constant row has its value as mean
      T total = 0;
      for (Index c = 0; c < cols; ++c) total += a.sum(r, c) - first;
      mean = first + total / count;
      T rest = 0;
      for (Index c = 0; c < cols; ++c) rest += a.sum(r, c) - mean;
      shift = rest / count;
      a.mean[r] = mean;
      a.shift[r] = shift;
    }
    T squares = 0;
    for (Index c = 0; c < cols; ++c) {
      const T d = (a.sum(r, c) - mean) - shift;
      squares += d * d;
    }
    const T rstd = 1 / std::sqrt(squares / count + static_cast<T>(a.eps));
    a.rstd[r] = rstd;
    for (Index c = 0; c < cols; ++c) {
      const T bias = a.bias == nullptr ? T{0} : a.bias[c];
      const T xhat = ((a.sum(r, c) - mean) - shift) * rstd;
      a.y(r, c) = xhat * factor(a.gain, c, a.gain_offset) + bias;
    }
  }
}

template <class T>
void run(Ref, const AddNormBackward<T>& a) {
  const Index cols = a.sum.cols;
  const auto count = static_cast<T>(cols);
  if (a.dgain != nullptr && a.dgain_into == Into::set) std::fill(a.dgain, a.dgain + cols, T{0});
  if (a.dbias != nullptr && a.dbias_into == Into::set) std::fill(a.dbias, a.dbias + cols, T{0});
  for (Index r = 0; r < a.sum.rows; ++r) {
    const T mean = a.mean == nullptr ? T{0} : a.mean[r];
    const T shift = a.mean == nullptr ? T{0} : a.shift[r];
    const T rstd = a.rstd[r];
    T total = 0;  // Σ dy·gain; 0 without centring
    T dot = 0;    // Σ dy·gain·x̂
    for (Index c = 0; c < cols; ++c) {
      const T xhat = ((a.sum(r, c) - mean) - shift) * rstd;
      const T ghat = a.dy(r, c) * factor(a.gain, c, a.gain_offset);
      if (a.mean != nullptr) total += ghat;
      dot += ghat * xhat;
      if (a.dgain != nullptr) a.dgain[c] += a.dy(r, c) * xhat;
      if (a.dbias != nullptr) a.dbias[c] += a.dy(r, c);
    }
    for (Index c = 0; c < cols; ++c) {
      const T xhat = ((a.sum(r, c) - mean) - shift) * rstd;
      const T ghat = a.dy(r, c) * factor(a.gain, c, a.gain_offset);
      const T later = a.dsum ? a.dsum(r, c) : T{0};
      const T value = later + rstd * (ghat - total / count - xhat * (dot / count));
      if (a.dx) set_or_add(a.dx(r, c), static_cast<T>(a.scale) * value, a.dx_into);
      if (a.db) set_or_add(a.db(r, c), value, a.db_into);
    }
  }
  if (a.branch.x) run(Ref{}, a.branch);
}

template void run(Ref, const AddNormForward<float>&);
template void run(Ref, const AddNormForward<double>&);
template void run(Ref, const AddNormBackward<float>&);
template void run(Ref, const AddNormBackward<double>&);

}  // namespace norma::kernels
