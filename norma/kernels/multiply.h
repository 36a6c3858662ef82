// Kernels of multiply; the contract is in norma/ops/multiply.h.
#pragma once

#include "norma/base/into.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

/// to (+)= a · b, element by element: the product, and the gradient of either factor.
template <class T>
struct Multiply {
  Rows<const T> a;
  Rows<const T> b;
  Rows<T> to;
  Into into;
};
template <class T>
void run(Ref, const Multiply<T>& a);
void run(Cpu, const Multiply<float>& a);
template <class T>
void run(Cuda, const Multiply<T>& a);

}  // namespace norma::kernels
