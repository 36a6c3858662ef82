// Kernels of gated; the formula and the contract are in norma/ops/gated.h.
#pragma once

#include "norma/base/bf16.h"
#include "norma/base/into.h"
#include "norma/kernels/activation_kind.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

template <class T>
struct GatedForward {
  Rows<const T> u;
  Rows<const T> g;
  const Wide<T>* s_u;  // (cols), or null for 1
  const Wide<T>* s_v;  // (cols), or null for 1
  Rows<T> y;
  double u_factor;  // u counts as u_factor · s_u · u
  double g_factor;  // g counts as g_factor · s_v · g
  Activation act;   // silu or gelu_tanh
};
template <class T>
void run(Ref, const GatedForward<T>& a);
void run(Cpu, const GatedForward<float>& a);
template <class T>
void run(Cuda, const GatedForward<T>& a);

template <class T>
struct GatedBackward {
  Rows<const T> u;
  Rows<const T> g;
  const Wide<T>* s_u;
  const Wide<T>* s_v;
  Rows<const T> dy;
  Rows<T> du;  // data null: not wanted
  Into du_into;
  Rows<T> dg;  // data null: not wanted
  Into dg_into;
  Wide<T>* ds_u;  // null: not wanted
  Into ds_u_into;
  Wide<T>* ds_v;  // null: not wanted
  Into ds_v_into;
  Wide<T>* partials_u;  // (RowChunks(rows).count, cols) when ds_u is wanted
  Wide<T>* partials_v;  // the same for ds_v
  double u_factor;
  double g_factor;
  Activation act;
};
template <class T>
void run(Ref, const GatedBackward<T>& a);
void run(Cpu, const GatedBackward<float>& a);
template <class T>
void run(Cuda, const GatedBackward<T>& a);

}  // namespace norma::kernels
