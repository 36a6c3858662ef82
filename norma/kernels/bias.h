// Kernels for the bias of a linear map.
#pragma once

#include "norma/base/into.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

/// y(r, c) += bias(c)
template <class T>
struct BiasForward {
  Rows<T> y;
  const T* bias;
};
template <class T>
void run(Ref, const BiasForward<T>& a);
void run(Cpu, const BiasForward<float>& a);

/// dbias(c) = sum over rows of dy(r, c)
template <class T>
struct BiasBackward {
  Rows<const T> dy;
  T* dbias;
  Into into;
  T* partials;  // (RowChunks(rows).count, cols)
};
template <class T>
void run(Ref, const BiasBackward<T>& a);
void run(Cpu, const BiasBackward<float>& a);

}  // namespace norma::kernels
