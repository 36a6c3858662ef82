// Kernels of activation; the formulas and the contract are in norma/ops/activation.h.
#pragma once

#include "norma/base/into.h"
#include "norma/kernels/activation_kind.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

template <class T>
struct ActivationForward {
  Rows<const T> x;
  Rows<T> y;
  Activation kind;
};
template <class T>
void run(Ref, const ActivationForward<T>& a);
void run(Cpu, const ActivationForward<float>& a);
template <class T>
void run(Cuda, const ActivationForward<T>& a);

template <class T>
struct ActivationBackward {
  Rows<const T> x;
  Rows<const T> dy;
  Rows<T> dx;
  Into dx_into;
  Activation kind;
  Rows<T> y = {};  // the activation's value again; no data: not wanted; may be the memory of dy
};
template <class T>
void run(Ref, const ActivationBackward<T>& a);
void run(Cpu, const ActivationBackward<float>& a);
template <class T>
void run(Cuda, const ActivationBackward<T>& a);

}  // namespace norma::kernels
