// Kernels that move tokens of sequences; contracts are in norma/ops/tokens.h. Activations are rows
// (sequences · tokens, width).
#pragma once

#include "norma/base/bf16.h"
#include "norma/base/into.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

/// y = token, then the tokens of x, for every sequence.
template <class T>
struct PrependForward {
  Rows<const T> x;
  const Wide<T>* token;  // (cols)
  Rows<T> y;
  Index tokens;  // per sequence of x
};
template <class T>
void run(Ref, const PrependForward<T>& a);
void run(Cpu, const PrependForward<float>& a);
template <class T>
void run(Cuda, const PrependForward<T>& a);

template <class T>
struct PrependBackward {
  Rows<const T> dy;
  Rows<T> dx;  // data null: not wanted
  Into dx_into;
  Wide<T>* dtoken;  // null: not wanted
  Into dtoken_into;
  Index tokens;
};
template <class T>
void run(Ref, const PrependBackward<T>& a);
void run(Cpu, const PrependBackward<float>& a);
template <class T>
void run(Cuda, const PrependBackward<T>& a);

/// y = x + positions, positions (tokens, cols) added to every sequence.
template <class T>
struct AddPositions {
  Rows<const T> x;
  const T* positions;
  Rows<T> y;
  Index tokens;
};
template <class T>
void run(Ref, const AddPositions<T>& a);
void run(Cpu, const AddPositions<float>& a);
template <class T>
void run(Cuda, const AddPositions<T>& a);

/// sums (+)= scale · Σ over sequences of dy, for the rows [first, first + tokens) of a table.
template <class T>
struct PositionSum {
  Rows<const T> dy;
  Wide<T>* sums;  // (table_rows, cols); rows outside are set to zero or left alone
  Into into;
  Index table_rows;
  Index first;
  Index tokens;
  double scale;
};
template <class T>
void run(Ref, const PositionSum<T>& a);
void run(Cpu, const PositionSum<float>& a);
template <class T>
void run(Cuda, const PositionSum<T>& a);

/// y = factor · Σ of tokens [begin, end) of every sequence. A single token with factor 1 is a copy.
template <class T>
struct PoolForward {
  Rows<const T> x;
  Rows<T> y;  // (sequences, cols)
  Index tokens;
  Index begin;
  Index end;
  double factor;
};
template <class T>
void run(Ref, const PoolForward<T>& a);
void run(Cpu, const PoolForward<float>& a);
template <class T>
void run(Cuda, const PoolForward<T>& a);

template <class T>
struct PoolBackward {
  Rows<const T> dy;
  Rows<T> dx;
  Into dx_into;
  Index tokens;
  Index begin;
  Index end;
  double factor;
};
template <class T>
void run(Ref, const PoolBackward<T>& a);
void run(Cpu, const PoolBackward<float>& a);
template <class T>
void run(Cuda, const PoolBackward<T>& a);

}  // namespace norma::kernels
