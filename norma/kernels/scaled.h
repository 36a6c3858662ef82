// A multiple of a gradient that an op computed ahead of time.
#pragma once

#include "norma/base/bf16.h"
#include "norma/base/into.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

/// to = or += factor·share·from
template <class T>
struct PutScaled {
  Rows<const T> from;
  const Wide<T>* factor;  // (1), where the rows are: the host never reads it
  const Wide<T>* shares;  // (rows); null: ones
  Rows<T> to;
  Into into;
};
template <class T>
void run(Ref, const PutScaled<T>& a);
void run(Cpu, const PutScaled<float>& a);
template <class T>
void run(Cuda, const PutScaled<T>& a);

}  // namespace norma::kernels
