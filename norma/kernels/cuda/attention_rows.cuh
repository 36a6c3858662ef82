// What attention's kernels share: the rules for logits, and which rows a block works on.
#pragma once

#include "norma/kernels/attention.h"
#include "norma/kernels/cuda/pack.cuh"

namespace norma::kernels {

/// Whether each head's part of all these rows can be taken in packs.
template <class... T>
bool heads_pack(const AttentionShape& s, const Rows<T>&... rows) {
  const auto fits = [&]<class E>(const Rows<E>& matrix) {
    constexpr int N = kPack<std::remove_const_t<E>>;
    return s.head_width % N == 0 && packs(matrix, N);
  };
  return (fits(rows) && ...);
}

// Probabilities: beside bf16 the hardware's exponential is exact enough (1e-6 of the largest).
__device__ inline float exp_of(float x) { return __expf(x); }
__device__ inline double exp_of(double x) { return exp(x); }
__device__ inline float tanh_of(float x) { return tanhf(x); }
__device__ inline double tanh_of(double x) { return tanh(x); }

/// The factor of a query's logits: its head's, times ln(visible keys) where the rule asks for it.
template <class C>
__device__ C row_factor(const AttentionShape& s, Index seen) {
  return s.log_length && seen > 1 ? static_cast<C>(log(static_cast<double>(seen)))
                                  : static_cast<C>(s.log_length ? 0 : 1);
}
template <class C>
__device__ C capped(const AttentionShape& s, C logit) {
  const C cap = static_cast<C>(s.softcap);
  return cap > 0 ? cap * tanh_of(logit / cap) : logit;
}
/// The derivative of capped(), from its value.
template <class C>
__device__ C cap_slope(const AttentionShape& s, C z) {
  const C cap = static_cast<C>(s.softcap);
  const C share = cap > 0 ? z / cap : 0;
  return 1 - share * share;
}

/// The most keys that one of the queries [first, first + count) sees.
__device__ inline Index most_visible(const AttentionShape& s, Index b, Index first, Index count) {
  const Index valid = s.lengths == nullptr ? s.keys : static_cast<Index>(s.lengths[b]);
  const Index begin = s.keys - s.queries + first;
  const Index last = min(begin + count, valid) - 1;
  if (last < begin) return 0;
  return s.causal ? last + 1 : valid;
}

/// The tile of queries that a block works on, one head of one sequence.
struct QueryTile {
  Index b, h, kv, first, count;
  /// Row of q; place in (batch, heads, queries).
  __device__ Index row(const AttentionShape& s) const { return b * s.queries + first; }
  __device__ Index place(const AttentionShape& s) const {
    return (b * s.heads + h) * s.queries + first;
  }
};
/// The last tiles of a causal head see the most and go first.
__device__ inline QueryTile query_tile(const AttentionShape& s, int rows) {
  const Index tiles = (s.queries + rows - 1) / rows;
  const Index head = blockIdx.x / tiles;
  const Index first = (tiles - 1 - blockIdx.x % tiles) * rows;
  return {.b = head / s.heads,
          .h = head % s.heads,
          .kv = head % s.heads / (s.heads / s.kv_heads),
          .first = first,
          .count = min(static_cast<Index>(rows), s.queries - first)};
}

/// The tile of keys that a block works on, one key head of one sequence, and the queries that see a
/// key of it: from the one at its first key on, up to the padding.
struct KeyTile {
  Index b, kv, first, count;  // count: keys that anyone sees
  Index begin, end;
};
__device__ inline KeyTile key_tile(const AttentionShape& s, int rows) {
  const Index tiles = (s.key_rows + rows - 1) / rows;
  const Index head = blockIdx.x / tiles;
  const Index first = blockIdx.x % tiles * rows;
  const Index b = head / s.kv_heads;
  const Index valid = s.lengths == nullptr ? s.keys : static_cast<Index>(s.lengths[b]);
  const Index count = max(Index{0}, min(static_cast<Index>(rows), valid - first));
  const Index ahead = s.keys - s.queries;
  return {.b = b,
          .kv = head % s.kv_heads,
          .first = first,
          .count = count,
          .begin = s.causal ? max(Index{0}, first - ahead) / rows * rows : 0,
          .end = count == 0 ? 0 : min(s.queries, valid - ahead)};
}

/// What a query's row brings along, in one access.
template <class C>
struct alignas(4 * sizeof(C)) QueryRow {
  int seen;
  C factor;  // of the head and of the row
  C lse;
  C delta;  // <dout, o>
};
/// Query i of head h in backward; beyond `end` it sees nothing.
template <class C, class T>
__device__ QueryRow<C> query_row(
    const AttentionBackward<T>& a, Index b, Index h, Index i, Index end) {
  if (i >= end) return {};
  const AttentionShape& s = a.shape;
  const Index place = (b * s.heads + h) * s.queries + i;
  const auto seen = static_cast<int>(s.visible(b, i));
  return {.seen = seen,
          .factor = read<C>(a.head_factor[h]) * row_factor<C>(s, seen),
          .lse = read<C>(a.lse[place]),
          .delta = read<C>(a.scratch[place])};
}

}  // namespace norma::kernels
