// Moves N neighbours of a row of any element type in accesses of up to 16 bytes, so that a pack of
// bf16 and the f32 numbers that belong to it have the same N.
#pragma once

#include <algorithm>

#include "norma/kernels/cuda/pack.cuh"

namespace norma::kernels {

/// N neighbours as they are stored, in registers.
template <class V, int N>
struct Neighbours {
  static constexpr int kPiece = N < kPack<V> ? N : kPack<V>;
  V raw[N];

  __device__ void load(const V* from) {
#pragma unroll
    for (int i = 0; i < N; i += kPiece) {
      const auto piece = load_pack<kPiece>(from + i);
#pragma unroll
      for (int k = 0; k < kPiece; ++k) raw[i + k] = piece.at[k];
    }
  }
  __device__ void store(V* to) const {
#pragma unroll
    for (int i = 0; i < N; i += kPiece) {
      Pack<V, kPiece> piece;
#pragma unroll
      for (int k = 0; k < kPiece; ++k) piece.at[k] = raw[i + k];
      store_pack(to + i, piece);
    }
  }
  template <class C>
  __device__ void get(C (&to)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = read<C>(raw[i]);
  }
  template <class C>
  __device__ void set(const C (&from)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) write(raw[i], from[i]);
  }
};
/// Two bf16 to a register: left to itself the compiler gives each its own.
template <>
struct Neighbours<Bf16, 8> {
  uint4 raw;

  __device__ void load(const Bf16* from) { raw = *reinterpret_cast<const uint4*>(from); }
  __device__ void store(Bf16* to) const { store_words(to, raw); }
  __device__ void get(float (&to)[8]) const {
    const unsigned words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      to[2 * i] = low_of(words[i]);
      to[2 * i + 1] = high_of(words[i]);
    }
  }
  __device__ void set(const float (&from)[8]) {
    raw = {rounded_pair(from[0], from[1]),
           rounded_pair(from[2], from[3]),
           rounded_pair(from[4], from[5]),
           rounded_pair(from[6], from[7])};
  }
};

template <>
struct Neighbours<Bf16, 4> {
  uint2 raw;

  __device__ void load(const Bf16* from) { raw = *reinterpret_cast<const uint2*>(from); }
  __device__ void store(Bf16* to) const { store_words(to, raw); }
  __device__ void get(float (&to)[4]) const {
    to[0] = low_of(raw.x);
    to[1] = high_of(raw.x);
    to[2] = low_of(raw.y);
    to[3] = high_of(raw.y);
  }
  __device__ void set(const float (&from)[4]) {
    raw = {rounded_pair(from[0], from[1]), rounded_pair(from[2], from[3])};
  }
};

/// The numbers of N neighbours, such as gains, in type C.
template <int N, class C, class V>
__device__ inline void read_row(const V* from, C (&to)[N]) {
  Neighbours<V, N> neighbours;
  neighbours.load(from);
  neighbours.get(to);
}
/// Sets or adds N neighbours.
template <int N, class C, class V>
__device__ inline void put_row(V* to, const C (&values)[N], Into into) {
  Neighbours<V, N> neighbours;
  if (into == Into::add) {
    C sums[N];
    read_row(to, sums);
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] += values[i];
    neighbours.set(sums);
  } else {
    neighbours.set(values);
  }
  neighbours.store(to);
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
