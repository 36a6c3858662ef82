// Rows times numbers: a scale per class that goes into the weights of a classifier, for kernels of
// its product that know none (HeadOdds).
#pragma once

#include "norma/base/bf16.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

/// to(r) = mult·scale(r)·from(r)
template <class T>
struct RowScale {
  Rows<const T> from;
  const Wide<T>* scale;  // (rows)
  double mult;
  Rows<T> to;
};
template <class T>
void run(Ref, const RowScale<T>& a);
template <class T>
void run(Cuda, const RowScale<T>& a);

/// dscale(r) = mult·<from(r), d(r)>; then d, the gradient of `to`, becomes that of `from`.
template <class T>
struct RowScaleBackward {
  Rows<const T> from;
  const Wide<T>* scale;  // (rows)
  double mult;
  Rows<Wide<T>> d;
  Wide<T>* dscale;  // (rows), set; null: not wanted
};
template <class T>
void run(Ref, const RowScaleBackward<T>& a);
template <class T>
void run(Cuda, const RowScaleBackward<T>& a);

}  // namespace norma::kernels
