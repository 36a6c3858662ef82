// Kernels of softcap; the formula and the contract are in norma/ops/softcap.h.
#pragma once

#include "norma/base/into.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

template <class T>
struct SoftcapForward {
  Rows<const T> x;
  Rows<T> y;
  double cap;
};
template <class T>
void run(Ref, const SoftcapForward<T>& a);
void run(Cpu, const SoftcapForward<float>& a);
template <class T>
void run(Cuda, const SoftcapForward<T>& a);

template <class T>
struct SoftcapBackward {
  Rows<const T> x;
  Rows<const T> dy;
  Rows<T> dx;
  Into dx_into;
  double cap;
};
template <class T>
void run(Ref, const SoftcapBackward<T>& a);
void run(Cpu, const SoftcapBackward<float>& a);
template <class T>
void run(Cuda, const SoftcapBackward<T>& a);

}  // namespace norma::kernels
