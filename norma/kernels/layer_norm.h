// Kernels of layer_norm; the formula and the contract are in norma/ops/layer_norm.h.
#pragma once

#include "norma/base/bf16.h"
#include "norma/base/into.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

template <class T>
struct LayerNormForward {
  Rows<const T> x;      // each row holds cols / group groups; every group is normalized
  const Wide<T>* gain;  // (group) or (cols) if gain_per_column, or null for 1 - gain_offset
  const Wide<T>* bias;  // like gain, or null for 0
  Rows<T> y;
  Wide<T>* mean;  // (rows * groups) each; the group's mean is mean + shift
  Wide<T>* shift;
  Wide<T>* rstd;
  Index group;
  bool gain_per_column;  // gain and bias have one entry per column instead of one per place
  double gain_offset;    // the factor is gain_offset + gain
  double eps;
};
template <class T>
void run(Ref, const LayerNormForward<T>& a);
void run(Cpu, const LayerNormForward<float>& a);
template <class T>
void run(Cuda, const LayerNormForward<T>& a);

template <class T>
struct LayerNormBackward {
  Rows<const T> x;
  const Wide<T>* gain;
  const Wide<T>* mean;
  const Wide<T>* shift;
  const Wide<T>* rstd;
  Rows<const T> dy;
  Rows<T> dx;  // data null: not wanted
  Into dx_into;
  Wide<T>* dgain;  // null: not wanted
  Into dgain_into;
  Wide<T>* dbias;  // null: not wanted
  Into dbias_into;
  Wide<T>* gain_partials;  // (RowChunks(rows).count, gain length) when dgain is wanted
  Wide<T>* bias_partials;  // the same for dbias
  Index group;
  bool gain_per_column;
  double gain_offset;
};
template <class T>
void run(Ref, const LayerNormBackward<T>& a);
void run(Cpu, const LayerNormBackward<float>& a);
template <class T>
void run(Cuda, const LayerNormBackward<T>& a);

}  // namespace norma::kernels
