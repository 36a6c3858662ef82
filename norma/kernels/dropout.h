// Kernels of dropout and drop_path; the contract is in norma/ops/dropout.h. Forward and backward
// are the same map: kept elements times a constant, the others zero.
#pragma once

#include "norma/base/into.h"
#include "norma/base/rng.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

/// A random word of 32 bits keeps its element when it is at least `threshold`.
struct DropRule {
  RandomKey key;
  const std::int32_t* step;  // (1), read when words are drawn; null: 0
  std::uint32_t threshold;
  double scale;  // of what is kept
  Index first;   // number of the first row (dropout) or sample (drop_path) among those drawn for

  /// A step's number begins at this bit of the stream; below it is who draws.
  static constexpr int kStepBit = 20;
  /// The rule of this step, with its number in the key.
  constexpr DropRule at_step() const {
    DropRule rule = *this;
    if (step != nullptr) rule.key.stream += static_cast<std::uint64_t>(*step) << kStepBit;
    rule.step = nullptr;
    return rule;
  }
};

// Which word belongs to an element. Columns go in groups of 64 that draw from 16 blocks of four
// words: column c of a group takes word c / 16 of block c % 16, so that 16 blocks can be computed
// side by side. A row starts with a new group: its mask does not depend on how rows lie in memory.
inline constexpr Index kDropLanes = 16;
inline constexpr Index kDropGroup = 4 * kDropLanes;

/// Position of the first block of the group that holds column `c` of a row.
constexpr std::uint64_t drop_group_position(Index r, Index cols, Index c) {
  const Index groups = (cols + kDropGroup - 1) / kDropGroup;
  return static_cast<std::uint64_t>((r * groups + c / kDropGroup) * kDropLanes);
}

template <class T>
struct Dropout {
  Rows<const T> from;
  Rows<T> to;
  Into into;
  DropRule rule;
};
template <class T>
void run(Ref, const Dropout<T>& a);
void run(Cpu, const Dropout<float>& a);
template <class T>
void run(Cuda, const Dropout<T>& a);

/// Keeps or drops samples: sample s is rows [s · rows_per_sample, (s + 1) · rows_per_sample) and
/// belongs to word first + s.
template <class T>
struct DropPath {
  Rows<const T> from;
  Rows<T> to;
  Into into;
  DropRule rule;
  Index rows_per_sample;
};
template <class T>
void run(Ref, const DropPath<T>& a);
void run(Cpu, const DropPath<float>& a);
template <class T>
void run(Cuda, const DropPath<T>& a);

}  // namespace norma::kernels
