// Kernels of column_gain; the formula and the contract are in norma/ops/column_gain.h.
#pragma once

#include "norma/base/bf16.h"
#include "norma/base/into.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

template <class T>
struct ColumnGainForward {
  Rows<const T> x;
  const Wide<T>* gain;  // (cols / block)
  Rows<T> y;
  Index block;  // columns that share a gain
  double mult;  // the factor is mult · gain
};
template <class T>
void run(Ref, const ColumnGainForward<T>& a);
void run(Cpu, const ColumnGainForward<float>& a);
template <class T>
void run(Cuda, const ColumnGainForward<T>& a);

template <class T>
struct ColumnGainBackward {
  Rows<const T> x;      // read only when dgain is wanted
  const Wide<T>* gain;  // null for 1
  Rows<const T> dy;
  Rows<T> dx;  // data null: not wanted
  Into dx_into;
  Wide<T>* dgain;  // null: not wanted
  Into dgain_into;
  Wide<T>* partials;  // (RowChunks(rows).count, cols) when dgain is wanted and block is 1,
  double* shared;     // or this instead: (RowChunks(rows).count, cols / block)
  Index block;
  double mult;
};
template <class T>
void run(Ref, const ColumnGainBackward<T>& a);
void run(Cpu, const ColumnGainBackward<float>& a);
template <class T>
void run(Cuda, const ColumnGainBackward<T>& a);

}  // namespace norma::kernels
