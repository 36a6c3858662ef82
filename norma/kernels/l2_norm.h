// Kernels of l2_norm and scale_norm; formulas and contracts are in norma/ops/l2_norm.h and
// norma/ops/scale_norm.h.
#pragma once

#include "norma/base/bf16.h"
#include "norma/base/into.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

template <class T>
struct L2NormForward {
  Rows<const T> x;      // each row holds cols / group groups; every group is normalized
  const Wide<T>* gain;  // null: 1
  Index gains;          // length of gain: 1 (one factor for all), group, or cols
  double gain_scale;    // the factor is gain_scale·gain
  Rows<T> y;
  Wide<T>* rnorm;  // (rows * groups): 1 / n, and 0 for a vector of zeros
  Index group;
  double eps;
};
template <class T>
void run(Ref, const L2NormForward<T>& a);
void run(Cpu, const L2NormForward<float>& a);
template <class T>
void run(Cuda, const L2NormForward<T>& a);

template <class T>
struct L2NormBackward {
  Rows<const T> x;
  const Wide<T>* gain;
  Index gains;
  double gain_scale;
  const Wide<T>* rnorm;
  Rows<const T> dy;
  Rows<T> dx;  // data null: not wanted
  Into dx_into;
  Wide<T>* dgain;  // null: not wanted
  Into dgain_into;
  Wide<T>* partials;  // (RowChunks(rows).count, gains) when dgain is wanted
  Index group;
};
template <class T>
void run(Ref, const L2NormBackward<T>& a);
void run(Cpu, const L2NormBackward<float>& a);
template <class T>
void run(Cuda, const L2NormBackward<T>& a);

}  // namespace norma::kernels
