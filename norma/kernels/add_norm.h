// Kernels of add_norm; the formula and the contract are in norma/ops/add_norm.h.
#pragma once

#include "norma/base/bf16.h"
#include "norma/base/into.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rms_norm.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

/// The RMS norm of b before it is added.
template <class T>
struct BranchRms {
  const Wide<T>* gain = nullptr;  // (cols), or null for 1 - gain_offset
  Wide<T>* rstd = nullptr;        // (rows); null: b is added as it is
  double gain_offset = 0;
  double eps = 0;
};

template <class T>
struct AddNormForward {
  Rows<const T> x;  // x and b without data: the sum is there already
  Rows<const T> b;
  BranchRms<T> branch;
  const Wide<T>* gain;  // (cols), or null for 1 - gain_offset
  const Wide<T>* bias;  // (cols), or null for 0
  Rows<T> sum;          // scale·x + b, or its norm in place of b
  Rows<T> y;            // the norm of sum; without data: not wanted
  Wide<T>* mean;        // (rows) each if centred, else null; a row's mean is mean + shift
  Wide<T>* shift;
  Wide<T>* rstd;  // (rows)
  double scale;
  double gain_offset;  // the factor is gain_offset + gain
  double eps;
};
template <class T>
void run(Ref, const AddNormForward<T>& a);
void run(Cpu, const AddNormForward<float>& a);
template <class T>
void run(Cuda, const AddNormForward<T>& a);

template <class T>
struct AddNormBackward {
  Rows<const T> sum;
  const Wide<T>* gain;
  const Wide<T>* mean;  // null: not centred
  const Wide<T>* shift;
  const Wide<T>* rstd;
  Rows<const T> dsum;  // data null: nobody used the sum
  Rows<const T> dy;
  Rows<T> dx;  // data null: not wanted; the same for db
  Into dx_into;
  Rows<T> db;
  Into db_into;
  Wide<T>* dgain;  // null: not wanted
  Into dgain_into;
  Wide<T>* dbias;  // null: not wanted
  Into dbias_into;
  Wide<T>* gain_partials;  // (RowChunks(rows).count, cols) when dgain is wanted
  Wide<T>* bias_partials;  // the same for dbias
  /// Afterwards, where the branch has a norm: its gradient, whose dy are the rows of db, or of dx
  /// where scale is 1. x without data: nothing is wanted of it, or there is none.
  RmsNormBackward<T> branch;
  double scale;
  double gain_offset;
};
template <class T>
void run(Ref, const AddNormBackward<T>& a);
void run(Cpu, const AddNormBackward<float>& a);
template <class T>
void run(Cuda, const AddNormBackward<T>& a);

}  // namespace norma::kernels
