// Rows in the registers of the team that works on them.
#pragma once

#include <type_traits>

#include "norma/kernels/cuda/row_packs.cuh"

namespace norma::kernels {

/// A row in the registers of its team, as it is stored.
template <class Team, class T>
struct Held {
  Neighbours<std::remove_const_t<T>, Team::N> raw[Team::kPacks > 0 ? Team::kPacks : 1];
  T* at;

  /// Reads the row at `from`; a null pointer holds nothing.
  __device__ Held(const Team& team, T* from) : at(from) {
    if constexpr (Team::kPacks > 0) {
      if (at == nullptr) return;
      team.each([&](int p, int c) { raw[p].load(at + c); });
    }
  }
  /// Nothing is held before keep.
  __device__ explicit Held(T* to) : at(to) {}

  __device__ explicit operator bool() const { return at != nullptr; }

  template <class C>
  __device__ void get(int p, int c, C (&to)[Team::N]) const {
    if constexpr (Team::kPacks > 0) {
      raw[p].get(to);
    } else {
      to[0] = read<C>(at[c]);
    }
  }
  /// Writes to memory, rounded to T, and holds what was written.
  template <class C>
  __device__ void keep(int p, int c, const C (&values)[Team::N]) {
    raw[p].set(values);
    raw[p].store(at + c);
  }
};

/// A row to set or to add to: what is added to is read at the start, with the other rows.
template <class Team, class T>
struct Slot {
  Held<Team, T> row;
  Into into;

  __device__ Slot(const Team& team, const Rows<T>& rows, Index r, Index column, Into how)
      : row(rows.data == nullptr ? nullptr : rows.row(r) + column), into(how) {
    if (into == Into::add) row = Held<Team, T>(team, row.at);
  }
  __device__ explicit operator bool() const { return row.at != nullptr; }

  /// Not to be called without rows.
  template <class C>
  __device__ void put(int p, int c, const C (&values)[Team::N]) {
    if (into == Into::set) return row.keep(p, c, values);
    C sums[Team::N];
    row.get(p, c, sums);
#pragma unroll
    for (int i = 0; i < Team::N; ++i) sums[i] += values[i];
    row.keep(p, c, sums);
  }
};

}  // namespace norma::kernels
