// Kernels of weight_norm; the formula and the contract are in norma/ops/weight_norm.h.
#pragma once

#include "norma/base/into.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

template <class T>
struct WeightNormForward {
  Rows<const T> v;
  const T* g;  // (rows), or (cols) if columns; null: 1
  Rows<T> w;
  T* norm;       // like g: |v|
  bool columns;  // columns instead of rows are normalized
};
template <class T>
void run(Ref, const WeightNormForward<T>& a);
void run(Cpu, const WeightNormForward<float>& a);

template <class T>
struct WeightNormBackward {
  Rows<const T> v;
  const T* g;
  const T* norm;
  Rows<const T> dw;
  Rows<T> dv;  // data null: not wanted
  Into dv_into;
  T* dg;  // null: not wanted
  Into dg_into;
  bool columns;
};
template <class T>
void run(Ref, const WeightNormBackward<T>& a);
void run(Cpu, const WeightNormBackward<float>& a);

}  // namespace norma::kernels
