// Kernels of qk_rope; the formulas and the contract are in norma/ops/qk_rope.h.
#pragma once

#include <cstdint>

#include "norma/base/bf16.h"
#include "norma/base/into.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rope.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

enum class HeadNorm : std::uint8_t { none, l2, rms };

/// A head v is multiplied by rstd and by its factors: rstd = (weight·|v|² + eps)^(-1/2).
struct HeadScaling {
  HeadNorm norm;
  double weight;  // 1 for l2, 1/D for rms
  double eps;
  double gain_offset;  // the factor is gain_offset + gain_mult·gain
  double gain_mult;
  bool gain_per_column;  // gain has one entry per column instead of one per place in the head
  bool after_rope;       // norm and gain act on the turned head, else the head turns after them
};

template <class T>
struct QkRopeForward {
  Rows<const T> x;
  const Wide<T>* gain;  // null: factor 1
  Rows<T> y;
  Wide<T>* rstd;  // (rows · heads)
  RopeFactors<T> factors;
  HeadScaling scaling;
};
template <class T>
void run(Ref, const QkRopeForward<T>& a);
void run(Cpu, const QkRopeForward<float>& a);
template <class T>
void run(Cuda, const QkRopeForward<T>& a);

template <class T>
struct QkRopeBackward {
  Rows<const T> x;
  const Wide<T>* gain;
  const Wide<T>* rstd;
  Rows<const T> dy;
  Rows<T> dx;  // data null: not wanted
  Into dx_into;
  Wide<T>* dgain;  // null: not wanted
  Into dgain_into;
  Wide<T>* partials;  // (RowChunks(rows).count, gain length) when dgain is wanted
  Wide<T>* heads;     // (RowChunks(rows).count, 2·D)
  RopeFactors<T> factors;
  HeadScaling scaling;
};
template <class T>
void run(Ref, const QkRopeBackward<T>& a);
void run(Cpu, const QkRopeBackward<float>& a);
template <class T>
void run(Cuda, const QkRopeBackward<T>& a);

}  // namespace norma::kernels
