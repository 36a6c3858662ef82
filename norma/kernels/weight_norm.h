// Kernels of weight_norm; the formula and the contract are in norma/ops/weight_norm.h.
#pragma once

#include "norma/base/bf16.h"
#include "norma/base/into.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

template <class T>
struct WeightNormForward {
  Rows<const T> v;
  const Wide<T>* g;  // (rows), or (cols) if columns; null: 1
  Rows<T> w;
  Wide<T>* norm;  // like g: |v|
  bool columns;   // columns instead of rows are normalized
};
template <class T>
void run(Ref, const WeightNormForward<T>& a);
void run(Cpu, const WeightNormForward<float>& a);
template <class T>
void run(Cuda, const WeightNormForward<T>& a);

template <class T>
struct WeightNormBackward {
  Rows<const T> v;
  const Wide<T>* g;
  const Wide<T>* norm;
  Rows<const Wide<T>> dw;
  Rows<Wide<T>> dv;  // data null: not wanted
  Into dv_into;
  Wide<T>* dg;  // null: not wanted
  Into dg_into;
  bool columns;
};
template <class T>
void run(Ref, const WeightNormBackward<T>& a);
void run(Cpu, const WeightNormBackward<float>& a);
template <class T>
void run(Cuda, const WeightNormBackward<T>& a);

}  // namespace norma::kernels
