#include "norma/kernels/weight_norm.h"

#include <cmath>

namespace norma::kernels {

namespace {

/// Element i of vector k: a row or a column.
template <class T>
T& at(const Rows<T>& m, bool columns, Index k, Index i) {
  return columns ? m(i, k) : m(k, i);
}

}  // namespace

template <class T>
void run(Ref, const WeightNormForward<T>& a) {
  const Index vectors = a.columns ? a.v.cols : a.v.rows;
  const Index length = a.columns ? a.v.rows : a.v.cols;
  for (Index k = 0; k < vectors; ++k) {
    T sum = 0;
    for (Index i = 0; i < length; ++i) sum += at(a.v, a.columns, k, i) * at(a.v, a.columns, k, i);
    const T norm = std::sqrt(sum);
    a.norm[k] = norm;
    const T g = a.g == nullptr ? T{1} : a.g[k];
    for (Index i = 0; i < length; ++i) {
      at(a.w, a.columns, k, i) = norm == 0 ? T{0} : g * (at(a.v, a.columns, k, i) / norm);
    }
  }
}

template <class T>
void run(Ref, const WeightNormBackward<T>& a) {
  const Index vectors = a.columns ? a.v.cols : a.v.rows;
  const Index length = a.columns ? a.v.rows : a.v.cols;
  for (Index k = 0; k < vectors; ++k) {
    const T norm = a.norm[k];
    const T g = a.g == nullptr ? T{1} : a.g[k];
    const auto unit = [&](Index i) { return norm == 0 ? T{0} : at(a.v, a.columns, k, i) / norm; };
    T dot = 0;  // ⟨v/|v|, dw⟩
    for (Index i = 0; i < length; ++i) dot += unit(i) * at(a.dw, a.columns, k, i);
    if (a.dg != nullptr) a.dg[k] = a.dg_into == Into::add ? a.dg[k] + dot : dot;
    if (!a.dv) continue;
    for (Index i = 0; i < length; ++i) {
      const T value = norm == 0 ? T{0} : g / norm * (at(a.dw, a.columns, k, i) - unit(i) * dot);
      T& slot = at(a.dv, a.columns, k, i);
      slot = a.dv_into == Into::add ? slot + value : value;
    }
  }
}

template void run(Ref, const WeightNormForward<float>&);
template void run(Ref, const WeightNormForward<double>&);
template void run(Ref, const WeightNormBackward<float>&);
template void run(Ref, const WeightNormBackward<double>&);

}  // namespace norma::kernels
