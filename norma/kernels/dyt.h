// Kernels of dyt and derf; formulas and contracts are in norma/ops/dyt.h.
#pragma once

#include <cstdint>

#include "norma/base/bf16.h"
#include "norma/base/into.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

/// The function f of y = gain·f(a·x + s) + bias.
enum class Squash : std::uint8_t { tanh, erf };

template <class T>
struct DytForward {
  Rows<const T> x;
  const Wide<T>* a;     // one number
  const Wide<T>* s;     // one number, or null for 0
  const Wide<T>* gain;  // (cols), or null for 1
  const Wide<T>* bias;  // (cols), or null for 0
  Rows<T> y;
  Squash squash;
};
template <class T>
void run(Ref, const DytForward<T>& a);
void run(Cpu, const DytForward<float>& a);
template <class T>
void run(Cuda, const DytForward<T>& a);

/// Numbers that a chunk of rows may leave: sums of dgain and dbias for every column, and of da and
/// ds for every 32 columns or more.
constexpr Index dyt_partials(Index cols) { return 2 * (cols + (cols + 31) / 32); }

template <class T>
struct DytBackward {
  Rows<const T> x;
  const Wide<T>* a;
  const Wide<T>* s;
  const Wide<T>* gain;
  Rows<const T> dy;
  Rows<T> dx;  // data null: not wanted
  Into dx_into;
  Wide<T>* da;  // null: not wanted; the same for ds, dgain, dbias
  Into da_into;
  Wide<T>* ds;
  Into ds_into;
  Wide<T>* dgain;
  Into dgain_into;
  Wide<T>* dbias;
  Into dbias_into;
  Wide<T>* partials;  // (RowChunks(rows).count, dyt_partials(cols)) when any of these is wanted
  Squash squash;
};
template <class T>
void run(Ref, const DytBackward<T>& a);
void run(Cpu, const DytBackward<float>& a);
template <class T>
void run(Cuda, const DytBackward<T>& a);

}  // namespace norma::kernels
