// Moves N neighbours of a row of any element type in accesses of up to 16 bytes, so that a pack of
// bf16 and the f32 numbers that belong to it have the same N.
#pragma once

#include <algorithm>

#include "norma/kernels/cuda/pack.cuh"

namespace norma::kernels {

/// N neighbours in accesses of up to 16 bytes.
template <int N, class V>
__device__ inline void load_row(const V* from, V (&to)[N]) {
  constexpr int kPiece = N < kPack<V> ? N : kPack<V>;
#pragma unroll
  for (int i = 0; i < N; i += kPiece) {
    const auto piece = load_pack<kPiece>(from + i);
#pragma unroll
    for (int k = 0; k < kPiece; ++k) to[i + k] = piece.at[k];
  }
}
template <int N, class V>
__device__ inline void store_row(V* to, const V (&from)[N]) {
  constexpr int kPiece = N < kPack<V> ? N : kPack<V>;
#pragma unroll
  for (int i = 0; i < N; i += kPiece) {
    Pack<V, kPiece> piece;
#pragma unroll
    for (int k = 0; k < kPiece; ++k) piece.at[k] = from[i + k];
    store_pack(to + i, piece);
  }
}
/// The numbers of N neighbours that nobody writes meanwhile, such as gains, in type C: such reads
/// need not wait for writes.
template <int N, class C>
__device__ inline void read_row(const float* from, C (&to)[N]) {
  if constexpr (N % 4 == 0) {
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      const float4 four = __ldg(reinterpret_cast<const float4*>(from + i));
      to[i] = static_cast<C>(four.x);
      to[i + 1] = static_cast<C>(four.y);
      to[i + 2] = static_cast<C>(four.z);
      to[i + 3] = static_cast<C>(four.w);
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = static_cast<C>(__ldg(from + i));
  }
}
/// Sets or adds N neighbours.
template <int N, class C, class V>
__device__ inline void put_row(V* to, const C (&values)[N], Into into) {
  V raw[N];
  if (into == Into::add) {
    load_row(to, raw);
#pragma unroll
    for (int i = 0; i < N; ++i) write(raw[i], read<C>(raw[i]) + values[i]);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) write(raw[i], values[i]);
  }
  store_row(to, raw);
}
/// Whether N neighbours from `data` on, and from any multiple of N further, can be moved by the
/// functions above; null pointers never hinder.
template <class V>
bool row_packs(const V* data, int n) {
  const auto bytes = std::min<std::uintptr_t>(16, static_cast<std::uintptr_t>(n) * sizeof(V));
  return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
}
/// The same for every row of a matrix; no rows never hinder.
template <class V>
bool row_packs(const Rows<V>& rows, int n) {
  return row_packs(rows.data, n) && (!rows || rows.stride % n == 0);
}

}  // namespace norma::kernels
