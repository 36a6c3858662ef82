// Kernels of the residual rules; formulas and contracts are in norma/ops/residual.h. The gradients
// of residual_add and residual_rscale are those of column_gain.
#pragma once

#include "norma/base/bf16.h"
#include "norma/base/into.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

/// y = scale · lambda · x + b
template <class T>
struct ResidualForward {
  Rows<const T> x;
  Rows<const T> b;
  const Wide<T>* lambda;  // (cols), or null for 1
  Rows<T> y;
  double scale;
};
template <class T>
void run(Ref, const ResidualForward<T>& a);
void run(Cpu, const ResidualForward<float>& a);
template <class T>
void run(Cuda, const ResidualForward<T>& a);

inline constexpr Index kAlerpForwardRows = 2;
template <class T>
struct AlerpForward {
  Rows<const T> x;
  Rows<const T> b;
  const Wide<T>* alpha_raw;  // (alphas)
  Index alphas;              // 1 or cols
  Rows<T> y;
  Wide<T>* coefficients;  // scratch (kAlerpForwardRows, cols)
  double mult;
};
template <class T>
void run(Ref, const AlerpForward<T>& a);
void run(Cpu, const AlerpForward<float>& a);
template <class T>
void run(Cuda, const AlerpForward<T>& a);

inline constexpr Index kAlerpBackwardRows = 4;
template <class T>
struct AlerpBackward {
  Rows<const T> x;  // x and b are read only when dalpha is wanted
  Rows<const T> b;
  const Wide<T>* alpha_raw;
  Index alphas;
  Rows<const T> dy;
  Rows<T> dx;  // data null: not wanted
  Into dx_into;
  Rows<T> db;  // data null: not wanted
  Into db_into;
  Wide<T>* dalpha;  // (alphas), null: not wanted
  Into dalpha_into;
  Wide<T>* partials;      // (RowChunks(rows).count, cols) when dalpha is wanted
  Wide<T>* coefficients;  // scratch (kAlerpBackwardRows, cols)
  double mult;
};
template <class T>
void run(Ref, const AlerpBackward<T>& a);
void run(Cpu, const AlerpBackward<float>& a);
template <class T>
void run(Cuda, const AlerpBackward<T>& a);

}  // namespace norma::kernels
