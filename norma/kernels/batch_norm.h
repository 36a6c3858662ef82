// Kernels of batch_norm; the formula and the contract are in norma/ops/batch_norm.h.
#pragma once

#include <cstdint>

#include "norma/base/bf16.h"
#include "norma/base/into.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

/// Which elements of (B, T) share their statistics.
enum class BatchStatistics : std::uint8_t {
  all,       // every valid position: leaks the future into the past
  position,  // position t over the batch
  prefix,    // positions up to and including t, over the batch
  running    // none: the running statistics normalize, in training too
};

/// Who normalizes whom: `sets` sets of statistics, 1 or `positions` of them.
struct BatchNormShape {
  Index batch;
  Index positions;
  Index sets;
  BatchStatistics statistics;
  bool constant;  // the running statistics normalize: no gradient flows through them
  /// The set that normalizes position t.
  constexpr Index set_of(Index t) const { return sets == 1 ? 0 : t; }
};

template <class T>
struct BatchNormForward {
  Rows<const T> x;              // (batch·positions, cols), row b·positions + t
  const std::int32_t* lengths;  // (batch), or null: all positions are valid
  const Wide<T>* gain;          // (cols), or null for 1
  const Wide<T>* bias;          // (cols), or null for 0
  Rows<T> y;
  Wide<T>* mean;  // (sets, cols) each; a set's mean is mean + shift
  Wide<T>* shift;
  Wide<T>* rstd;
  Wide<T>* running_mean;  // (cols), or (positions, cols) for statistics by position
  Wide<T>* running_var;
  double* sums;  // scratch (2, positions, cols), on the GPU alone
  BatchNormShape shape;
  bool update;  // move the running statistics towards those of the batch
  double momentum;
  double eps;
};
template <class T>
void run(Ref, const BatchNormForward<T>& a);
void run(Cpu, const BatchNormForward<float>& a);
template <class T>
void run(Cuda, const BatchNormForward<T>& a);

template <class T>
struct BatchNormBackward {
  Rows<const T> x;
  const std::int32_t* lengths;
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
  double* sums;  // scratch (2, positions, cols), on the GPU alone
  BatchNormShape shape;
};
template <class T>
void run(Ref, const BatchNormBackward<T>& a);
void run(Cpu, const BatchNormBackward<float>& a);
template <class T>
void run(Cuda, const BatchNormBackward<T>& a);

}  // namespace norma::kernels
