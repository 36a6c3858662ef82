// Kernels of rope; the formulas and the contract are in norma/ops/rope.h.
#pragma once

#include <cstdint>

#include "norma/base/bf16.h"
#include "norma/base/into.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

enum class RopeLayout : std::uint8_t { interleaved, half_split, nvidia_defect };

/// The factors of every pair at every position, and how pairs lie in a head.
template <class T>
struct RopeFactors {
  const Wide<T>* cosine;  // (positions, pairs)
  const Wide<T>* sine;
  Index pairs;   // D / 2
  Index steps;   // rows r and r + steps are at the same position
  Index offset;  // the position of row 0
  RopeLayout layout;

  const Wide<T>* cosine_of(Index row) const { return cosine + (offset + row % steps) * pairs; }
  const Wide<T>* sine_of(Index row) const { return sine + (offset + row % steps) * pairs; }
};

/// y = R x, or Rᵀ x when transposed (the gradient).
template <class T>
struct Rope {
  Rows<const T> x;
  Rows<T> y;
  Into into;
  RopeFactors<T> factors;
  bool transposed;
};
template <class T>
void run(Ref, const Rope<T>& a);
void run(Cpu, const Rope<float>& a);
template <class T>
void run(Cuda, const Rope<T>& a);

/// The definition: entry i of a turned head whose entries are value(0) to value(2·pairs − 1).
template <class T, class Value>
T turned(RopeLayout layout,
         bool transposed,
         const T* cosine,
         const T* sine,
         Index pairs,
         Index i,
         const Value& value) {
  const bool half = layout == RopeLayout::half_split;
  const Index j = half ? i % pairs : i / 2;
  const bool first = half ? i < pairs : i % 2 == 0;
  const T other = value(half ? (first ? i + pairs : i - pairs) : (first ? i + 1 : i - 1));
  const T c = cosine[j];
  const T s = sine[j];
  if (layout == RopeLayout::nvidia_defect) {
    if (first) return transposed ? s * other : -c * other;
    return transposed ? -c * other : s * other;
  }
  return first == transposed ? c * value(i) + s * other : c * value(i) - s * other;
}

}  // namespace norma::kernels
