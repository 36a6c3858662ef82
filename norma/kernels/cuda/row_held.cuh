// Rows in the registers of the team that works on them.
#pragma once

#include <type_traits>

#include "norma/kernels/cuda/row_packs.cuh"
#include "norma/kernels/cuda/row_walk.cuh"

namespace norma::kernels {

/// A row in the registers of its team, as it is stored.
template <class Team, class T>
struct Held {
  Neighbours<std::remove_const_t<T>, Team::N> raw[Team::kPacks > 0 ? Team::kPacks : 1];
  T* at;

  __device__ Held() : at(nullptr) {}
  /// Reads the row at `from`. No load hangs on a condition, so that all are on the way at once:
  /// threads beyond the width read what others read, teams without a row some row that exists.
  __device__ Held(const Team& team, T* from) : at(from) {
#pragma unroll
    for (int p = 0; p < Team::kPacks; ++p) {
      const int c = (p * Team::kSpan + team.lane) * Team::N;
      raw[p].load(at + (Team::kFull || c < team.width ? c : team.width - Team::N));
    }
  }
  /// Nothing is held before hold.
  __device__ explicit Held(T* to) : at(to) {}

  /// Zeros take the place of what is held.
  __device__ void clear() {
#pragma unroll
    for (auto& pack : raw) pack = {};
  }

  /// Makes the compiler take what is held for something new, so that the next loop works its
  /// numbers out again: kept from loop to loop they would need twice the registers of what is held.
  __device__ void look_again() {
    if constexpr (Team::kPacks > 0 && alignof(decltype(raw)) % alignof(unsigned) == 0) {
      auto* words = reinterpret_cast<unsigned*>(&raw[0]);
#pragma unroll
      for (int i = 0; i < static_cast<int>(sizeof(raw) / sizeof(unsigned)); ++i) {
        asm volatile("" : "+r"(words[i]));
      }
    }
  }

  template <class C>
  __device__ void get(int p, int c, C (&to)[Team::N]) const {
    if constexpr (Team::kPacks > 0) {
      raw[p].get(to);
    } else {
      to[0] = read<C>(at[c]);
    }
  }
  /// Zeros where there is no row.
  template <class C>
  __device__ void get_or_zero(int p, int c, C (&to)[Team::N]) const {
    if (Team::kPacks > 0 || at != nullptr) return get(p, c, to);
    to[0] = 0;
  }
  /// Holds the values rounded to T.
  template <class C>
  __device__ void hold(int p, const C (&values)[Team::N]) {
    raw[p].set(values);
  }
  /// Writes what is held to memory.
  __device__ void store(int p, int c) const { raw[p].store(at + c); }
};

/// What a row holds that is added to, read with the other rows. Zeros, and no registers, where it
/// is set. There must be rows to add to.
template <class Team, class T, Into kInto>
struct Former {
  Held<Team, const T> row;

  __device__ Former() {}
  __device__ Former(const Team& team, const Rows<T>& to, Index r, Index column)
      : row(team, to.row(r) + column) {}
  template <class C>
  __device__ void get(int p, int c, C (&values)[Team::N]) const {
    row.get(p, c, values);
  }
};
template <class Team, class T>
struct Former<Team, T, Into::set> {
  __device__ Former() {}
  __device__ Former(const Team&, const Rows<T>&, Index, Index) {}
  template <class C>
  __device__ void get(int, int, C (&values)[Team::N]) const {
#pragma unroll
    for (C& value : values) value = 0;
  }
};

/// Sets or adds to N columns of the rows of a batch, row k of them values[k]. What is added to is
/// read for all rows at once, and only now: for kernels whose registers are full before.
template <int kRows, int N, class T, class C>
__device__ inline void put_rows(const Rows<T>& to,
                                const RowBatch<kRows>& rows,
                                Index column,
                                C (&values)[kRows][N],
                                Into into) {
  if (into == Into::add) {
    Neighbours<T, N> old[kRows];
#pragma unroll
    for (int k = 0; k < kRows; ++k) old[k].load(to.row(rows.row(k)) + column);
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      C sums[N];
      old[k].get(sums);
#pragma unroll
      for (int i = 0; i < N; ++i) values[k][i] += sums[i];
    }
  }
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    if (rows.on[k]) put_row(to.row(rows.row(k)) + column, values[k], Into::set);
  }
}

}  // namespace norma::kernels
