// Kernels of rms_norm; the formula and the contract are in norma/ops/rms_norm.h.
#pragma once

#include "norma/base/bf16.h"
#include "norma/base/into.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

template <class T>
struct RmsNormForward {
  Rows<const T> x;      // each row holds cols / group groups; every group is normalized
  const Wide<T>* gain;  // (group) or (cols) if gain_per_column, or null for 1 - gain_offset
  Rows<T> y;
  Wide<T>* rstd;  // (rows * groups)
  Index group;
  bool gain_per_column;  // gain has one entry per column instead of one per place in the group
  double gain_offset;    // the factor is gain_offset + gain
  double eps;
};
template <class T>
void run(Ref, const RmsNormForward<T>& a);
void run(Cpu, const RmsNormForward<float>& a);
template <class T>
void run(Cuda, const RmsNormForward<T>& a);

template <class T>
struct RmsNormBackward {
  Rows<const T> x;
  const Wide<T>* gain;
  const Wide<T>* rstd;
  Rows<const T> dy;
  Rows<T> dx;  // data null: not wanted
  Into dx_into;
  Wide<T>* dgain;  // null: not wanted
  Into dgain_into;
  Wide<T>* partials;  // (RowChunks(rows).count, gain length) when dgain is wanted
  Index group;
  bool gain_per_column;
  double gain_offset;
};
template <class T>
void run(Ref, const RmsNormBackward<T>& a);
void run(Cpu, const RmsNormBackward<float>& a);
template <class T>
void run(Cuda, const RmsNormBackward<T>& a);

}  // namespace norma::kernels
