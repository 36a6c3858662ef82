// Kernels of attention; the formula and the contract are in norma/ops/attention.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "norma/base/bf16.h"
#include "norma/base/into.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

inline constexpr Index kWidestGpuHead = 256;

/// Sizes and rules that forward and backward share.
struct AttentionShape {
  Index batch;
  Index queries;   // query tokens of a sequence
  Index keys;      // key tokens; with a causal mask the last query sees the last key
  Index key_rows;  // rows from a sequence's first key to the next one's: keys, or more in a cache
  Index heads;
  Index kv_heads;  // each serves heads / kv_heads query heads
  Index head_width;
  bool causal;
  bool log_length;              // multiply a row's logits by ln(number of visible keys)
  double softcap;               // 0: none
  const std::int32_t* lengths;  // (batch) valid tokens, or null: all
  double uniform_factor;  // the head factor where it is known to be that of every head, else 0

  /// Keys that query i of sequence b sees: [0, visible). 0 for a padded query.
  constexpr Index visible(Index b, Index i) const {
    const Index valid = lengths == nullptr ? keys : static_cast<Index>(lengths[b]);
    const Index at = keys - queries + i;
    if (at >= valid && lengths != nullptr) return 0;
    return causal ? std::min(valid, at + 1) : valid;
  }
  /// ln(visible) where the rule asks for it, else 1.
  double row_factor(Index seen) const {
    return log_length ? std::log(static_cast<double>(std::max<Index>(seen, 1))) : 1.0;
  }
};

template <class T>
struct AttentionForward {
  AttentionShape shape;
  Rows<const T> q;             // (batch · queries, heads · head_width)
  Rows<const T> k, v;          // (batch · key_rows, kv_heads · head_width)
  const Wide<T>* head_factor;  // (heads)
  Rows<T> o;                   // like q
  Wide<T>* lse;                // (batch, heads, queries): log of the softmax's denominator
  Wide<T>* scratch;            // Cpu: forward_scratch() per thread
};
template <class T>
void run(Ref, const AttentionForward<T>& a);
void run(Cpu, const AttentionForward<float>& a);
template <class T>
void run(Cuda, const AttentionForward<T>& a);

template <class T>
struct AttentionBackward {
  AttentionShape shape;
  Rows<const T> q, k, v;
  const Wide<T>* head_factor;
  Rows<const T> o;
  const Wide<T>* lse;
  Rows<const T> dout;
  Rows<T> dq;  // data null: not wanted
  Into dq_into;
  Rows<T> dk;  // dk and dv: null data, not wanted
  Into dk_into;
  Rows<T> dv;
  Into dv_into;
  Wide<T>* dhead_factor;  // (batch, heads): one sum per sequence and head; null: not wanted
  Wide<T>* scratch;       // Cpu: backward_scratch() per thread; Cuda: scratch_on_gpu()
  /// dq, dk and dv are wanted, set and nothing else, fits_joint_gradient(), and scratch has room
  /// for it: one kernel may make all of them.
  bool joint;
};
template <class T>
void run(Ref, const AttentionBackward<T>& a);
void run(Cpu, const AttentionBackward<float>& a);
template <class T>
void run(Cuda, const AttentionBackward<T>& a);

/// Elements of scratch that each thread of the Cpu kernels needs.
Index forward_scratch(const AttentionShape& shape);
Index backward_scratch(const AttentionShape& shape);
/// Whether sizes and rules are those for which one kernel on Hopper makes all gradients in bf16.
inline constexpr Index kJointWidth = 64;  // of a head
inline constexpr Index kJointTile = 128;  // queries, and keys
/// Visits of tiles of keys to blocks of queries. Each has two bytes in the GPU's memory, which no
/// forecast counts, and so many take a quarter of a second to plan (joint_schedule.h).
inline constexpr Index kMostJointVisits = Index{1} << 24;
constexpr bool fits_joint_gradient(const AttentionShape& s) {
  const Index tiles = s.queries / kJointTile;
  const Index visits = s.batch * s.heads * tiles * (s.causal ? tiles + 1 : 2 * tiles) / 2;
  return visits <= kMostJointVisits && s.head_width == kJointWidth && s.heads == s.kv_heads &&
         s.queries == s.keys && s.keys == s.key_rows && s.queries % kJointTile == 0 &&
         s.softcap == 0 && !s.log_length && s.lengths == nullptr;
}
/// What the Cuda kernels have in their scratch memory, in elements: two numbers for each query of
/// each head; and for one kernel that makes all gradients, dq in f32 (`sums`) and a count for each
/// half of a tile of it (`turns`).
struct AttentionScratch {
  Index sums_at;
  Index turns_at;
  Index turns;
  Index all;
};
constexpr AttentionScratch scratch_on_gpu(const AttentionShape& s, bool joint) {
  const Index rows = s.batch * s.heads * s.queries;
  const Index sums = joint ? rows * kJointWidth : 0;
  const Index turns = joint ? rows / (kJointTile / 2) : 0;
  return {.sums_at = 2 * rows,
          .turns_at = 2 * rows + sums,
          .turns = turns,
          .all = 2 * rows + sums + turns};
}

/// head_factor_h = scale · temperature_h · log_scale_h; see ops/attention.h.
template <class T>
struct HeadFactorForward {
  Index heads;
  double scale;
  bool exponential;            // temperature = exp(min(stored, ln 100)) instead of the stored value
  const Wide<T>* temperature;  // (1) or (heads), or null: 1
  Index temperatures;
  const Wide<T>* log_scale;  // (heads), or null: 1
  Wide<T>* factor;           // (heads)
};
template <class T>
void run(Ref, const HeadFactorForward<T>& a);
template <class T>
void run(Cuda, const HeadFactorForward<T>& a);

template <class T>
struct HeadFactorBackward {
  HeadFactorForward<T> forward;
  Index batch;
  const Wide<T>* dfactor;  // (batch, heads)
  Wide<T>* dtemperature;   // null: not wanted
  Into dtemperature_into;
  Wide<T>* dlog_scale;  // null: not wanted
  Into dlog_scale_into;
};
template <class T>
void run(Ref, const HeadFactorBackward<T>& a);
template <class T>
void run(Cuda, const HeadFactorBackward<T>& a);

/// Swin-v2's upper bound of the stored temperature, ln 100.
inline constexpr double kLargestLogTemperature = 4.605170185988092;

}  // namespace norma::kernels
