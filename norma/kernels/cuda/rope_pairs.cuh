// Heads taken in pairs of entries that turn together: a thread has both entries of its pairs, so
// that turning needs nobody else and may happen in place. A row_team's columns are pairs here.
#pragma once

#include "norma/kernels/cuda/row_packs.cuh"
#include "norma/kernels/rope.h"

namespace norma::kernels {

/// Where pairs lie: entries j and j + pairs (kHalf), or 2j and 2j + 1. Pairs c to c + N − 1 are in
/// two runs of N entries.
template <bool kHalf>
struct PairPlaces {
  Index pairs;

  __device__ Index low(int c) const { return kHalf ? c : 2 * static_cast<Index>(c); }
  template <int N>
  __device__ Index high(int c) const {
    return kHalf ? c + pairs : 2 * static_cast<Index>(c) + N;
  }
  /// From the entries of the two runs to the first and second of each pair.
  template <int N, class C>
  __device__ static void part(const C (&low)[N],
                              const C (&high)[N],
                              C (&first)[N],
                              C (&second)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if constexpr (kHalf) {
        first[i] = low[i];
        second[i] = high[i];
      } else {
        first[i] = 2 * i < N ? low[2 * i % N] : high[2 * i % N];
        second[i] = 2 * i + 1 < N ? low[(2 * i + 1) % N] : high[(2 * i + 1) % N];
      }
    }
  }
  /// The way back.
  template <int N, class C>
  __device__ static void join(const C (&first)[N],
                              const C (&second)[N],
                              C (&low)[N],
                              C (&high)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if constexpr (kHalf) {
        low[i] = first[i];
        high[i] = second[i];
      } else {
        low[i] = i % 2 == 0 ? first[i / 2] : second[i / 2];
        high[i] = (N + i) % 2 == 0 ? first[(N + i) / 2] : second[(N + i) / 2];
      }
    }
  }
};

/// Four interleaved pairs of bf16 are one access.
template <bool kHalf, class V, int N>
inline constexpr bool kJoined = !kHalf && N == 4 && std::is_same_v<std::remove_const_t<V>, Bf16>;

/// A head in the registers of its team.
template <bool kHalf, class Team, class T>
struct HeldPairs {
  static constexpr int N = Team::N;
  using Part = Neighbours<std::remove_const_t<T>, N>;
  Part low[Team::kPacks > 0 ? Team::kPacks : 1];
  Part high[Team::kPacks > 0 ? Team::kPacks : 1];
  Neighbours<std::remove_const_t<T>, 2 * N> whole;  // instead of both, where they are joined
  PairPlaces<kHalf> places;
  T* at;

  __device__ HeldPairs(const Team& team, T* from, Index pairs) : places{pairs}, at(from) {
    if constexpr (Team::kPacks > 0) {
      team.each([&](int p, int c) { load(p, c); });
    }
  }
  template <class C>
  __device__ void get(int p, int c, C (&first)[N], C (&second)[N]) {
    if constexpr (Team::kPacks == 0) load(0, c);
    if constexpr (kJoined<kHalf, T, N>) {
      C all[2 * N];
      whole.get(all);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        first[i] = all[2 * i];
        second[i] = all[2 * i + 1];
      }
    } else {
      C a[N];
      C b[N];
      low[p].get(a);
      high[p].get(b);
      places.part(a, b, first, second);
    }
  }
  __device__ void load(int p, int c) {
    if constexpr (kJoined<kHalf, T, N>) {
      static_assert(Team::kPacks == 1);
      return whole.load(at + places.low(c));
    }
    low[p].load(at + places.low(c));
    high[p].load(at + places.template high<N>(c));
  }
};

template <bool kHalf, int N, class C, class V>
__device__ inline void read_pairs(
    const V* from, Index pairs, int c, C (&first)[N], C (&second)[N]) {
  const PairPlaces<kHalf> places{pairs};
  C low[N];
  C high[N];
  read_row(from + places.low(c), low);
  read_row(from + places.template high<N>(c), high);
  places.part(low, high, first, second);
}
template <bool kHalf, int N, class C, class V>
__device__ inline void put_pairs(
    V* to, Index pairs, int c, const C (&first)[N], const C (&second)[N], Into into) {
  const PairPlaces<kHalf> places{pairs};
  if constexpr (kJoined<kHalf, V, N>) {
    C all[2 * N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      all[2 * i] = first[i];
      all[2 * i + 1] = second[i];
    }
    return put_row(to + places.low(c), all, into);
  }
  C low[N];
  C high[N];
  places.join(first, second, low, high);
  put_row(to + places.low(c), low, into);
  put_row(to + places.template high<N>(c), high, into);
}

/// The factors of qk_rope `a` for N pairs of the head that starts at column `at`.
template <bool kHalf, int N, class A, class C>
__device__ inline void read_factors(const A& a, Index at, int c, C (&first)[N], C (&second)[N]) {
  if (a.gain == nullptr) {
#pragma unroll
    for (int i = 0; i < N; ++i) first[i] = second[i] = 1;
    return;
  }
  const float* gain = a.gain + (a.scaling.gain_per_column ? at : 0);
  read_pairs<kHalf>(gain, a.factors.pairs, c, first, second);
  const auto offset = static_cast<C>(a.scaling.gain_offset);
  const auto mult = static_cast<C>(a.scaling.gain_mult);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    first[i] = offset + mult * first[i];
    second[i] = offset + mult * second[i];
  }
}

/// The first of the table's factors for a row's position.
template <class T>
__device__ inline Index factors_of(const RopeFactors<T>& f, Index row) {
  const bool small = row < (Index{1} << 32) && f.steps < (Index{1} << 32);  // much faster
  const Index step =
      small ? static_cast<Index>(static_cast<unsigned>(row) % static_cast<unsigned>(f.steps))
            : row % f.steps;
  return (f.offset + step) * f.pairs;
}

/// The rotations of N pairs at one position.
template <int N, class C>
struct Turn {
  C cosine[N];
  C sine[N];
  bool defect;

  /// `from`: the factors_of the row, plus the first pair.
  template <class T>
  __device__ Turn(const RopeFactors<T>& f, Index from)
      : defect(f.layout == RopeLayout::nvidia_defect) {
    read_row(f.cosine + from, cosine);
    read_row(f.sine + from, sine);
  }
  /// R, or Rᵀ: the map of `turned` in kernels/rope.h.
  __device__ void operator()(bool transposed, C (&first)[N], C (&second)[N]) const {
    if (defect) return turn_defect(transposed, first, second);
    rotate(transposed, first, second);
  }
  /// The same where there is no defect.
  __device__ void rotate(bool transposed, C (&first)[N], C (&second)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const C x0 = first[i];
      const C x1 = second[i];
      const C s = transposed ? -sine[i] : sine[i];
      first[i] = cosine[i] * x0 - s * x1;
      second[i] = cosine[i] * x1 + s * x0;
    }
  }
  __device__ void turn_defect(bool transposed, C (&first)[N], C (&second)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const C x0 = first[i];
      const C x1 = second[i];
      first[i] = transposed ? sine[i] * x1 : -cosine[i] * x1;
      second[i] = transposed ? -cosine[i] * x0 : sine[i] * x0;
    }
  }
};

}  // namespace norma::kernels
