// Kernels for the bias of a linear map.
#pragma once

#include "norma/base/bf16.h"
#include "norma/base/into.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

/// y(r, c) += bias(c)
template <class T>
struct BiasForward {
  Rows<T> y;
  const Wide<T>* bias;
};
template <class T>
void run(Ref, const BiasForward<T>& a);
void run(Cpu, const BiasForward<float>& a);
template <class T>
void run(Cuda, const BiasForward<T>& a);

/// dbias(c) = sum over rows of dy(r, c)
template <class T>
struct BiasBackward {
  Rows<const T> dy;
  Wide<T>* dbias;
  Into into;
  Wide<T>* partials;  // (RowChunks(rows).count, cols)
};
template <class T>
void run(Ref, const BiasBackward<T>& a);
void run(Cpu, const BiasBackward<float>& a);
template <class T>
void run(Cuda, const BiasBackward<T>& a);

}  // namespace norma::kernels
