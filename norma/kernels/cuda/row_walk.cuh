// Teams of threads that share a row or a group of it, and the way the teams of a block take rows.
#pragma once

#include "norma/kernels/cuda/pack.cuh"

namespace norma::kernels {

/// How sums over rows are wanted: not at all, with the groups of a row added up as well, or for
/// every column of a row.
enum class OverRows { none, folded, per_column };

/// Which block and team takes which rows; the same for every element type.
struct RowWalk {
  Index rows;
  Index chunk_rows;  // of one block
  int groups;        // in a row
  int width;         // of a group
  int beside;        // groups that a block takes at once
  int at_once;       // rows that a block takes at once
  int slices;        // times `beside` covers the groups
  bool folded;       // sums over rows are also over groups
  dim3 grid;         // (chunks, slices or 1)
};

/// kSpan threads that share a row, each with kPacks packs of N neighbours; kPacks 0: rows of any
/// width, which are read again in every loop over them. kFull: the packs are as wide as a row, so
/// that loops over them do not branch.
template <int kSpan_,
          int kPacks_,
          int N_,
          int kThreads_ = kSpan_ <= 32 && kPacks_ == 1 ? 512 : 256,
          int kRows_ = 1,
          bool kFull_ = false>
struct RowTeam {
  static constexpr int kSpan = kSpan_;
  static constexpr int kPacks = kPacks_;
  static constexpr int N = N_;
  // Of a block. Two blocks fit a multiprocessor; threads that hold little leave registers for more.
  static constexpr int kThreads = kThreads_;
  static constexpr int kTeams = kThreads / kSpan;
  static constexpr int kRows = kRows_;  // that a team holds at once, in walk_batches
  static constexpr bool kFull = kFull_;
  static_assert(kThreads % kSpan == 0 && (kPacks > 0 || (N == 1 && kRows == 1)));

  int width;        // of a row
  int lane;         // this thread's place in the team
  int index;        // the team's place in the block
  int calls = 0;    // of sum
  bool on = false;  // whether the team has a row

  __device__ explicit RowTeam(const RowWalk& walk)
      : width(walk.width),
        lane(static_cast<int>(threadIdx.x) % kSpan),
        index(static_cast<int>(threadIdx.x) / kSpan) {}

  /// Whether this thread writes what is known of the row as a whole.
  __device__ bool first() const { return on && lane == 0; }

  /// f(p, c): the p-th pack of this thread starts at column c of the row.
  template <class F>
  __device__ void each(F&& f) const {
    if (!on) return;
    each_column(f);
  }
  template <class F>
  __device__ void each_column(F&& f) const {
    if constexpr (kPacks > 0) {
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        const int c = (p * kSpan + lane) * N;
        if (kFull || c < width) f(p, c);
      }
    } else {
      for (int c = lane; c < width; c += kSpan) f(0, c);
    }
  }

  /// Sums over the team, given to all of it. All threads of the block call it, with a row or not.
  template <int K, class C>
  __device__ void sum(C (&values)[K]) {
#pragma unroll
    for (int k = 0; k < K; ++k) values[k] = warp_sum<(kSpan < 32 ? kSpan : 32)>(values[k]);
    if constexpr (kSpan > 32) {
      // Two sets of parts in turn: one barrier tells that the set before the last has been read.
      __shared__ C parts[2][kThreads / 32][K];
      auto& mine = parts[calls++ % 2];
      const int warp = static_cast<int>(threadIdx.x) / 32;
      if (threadIdx.x % 32 == 0) {
#pragma unroll
        for (int k = 0; k < K; ++k) mine[warp][k] = values[k];
      }
      barrier<0>();
#pragma unroll
      for (int k = 0; k < K; ++k) {
        values[k] = 0;
#pragma unroll
        for (int w = 0; w < kSpan / 32; ++w) values[k] += mine[index * (kSpan / 32) + w][k];
      }
    }
    // What was read for the sums, such as gains, is read again from the cache rather than kept in
    // registers that would be missing for rows.
    asm volatile("" ::: "memory");
  }

  /// The same for K sums of each of several rows.
  template <int kRowCount, int K, class C>
  __device__ void sum(C (&values)[kRowCount][K]) {
    C flat[kRowCount * K];
#pragma unroll
    for (int i = 0; i < kRowCount * K; ++i) flat[i] = values[i / K][i % K];
    sum(flat);
#pragma unroll
    for (int i = 0; i < kRowCount * K; ++i) values[i / K][i % K] = flat[i];
  }

  /// Of the team alone. Numbers known to the compiler: else it would claim all barriers there are.
  template <int kIndex>
  __device__ void barrier() const {
    if (kIndex + 1 == kTeams || index == kIndex) {
      meet_some<kIndex + 1, kSpan>();
    } else if constexpr (kIndex + 1 < kTeams) {
      barrier<kIndex + 1>();
    }
  }
};

/// f(r, g) for all rows r of the block's chunk and groups g. Teams without a row are called as
/// well, for the barriers in sums, with some r and g that exist.
template <class Team, class F>
__device__ void walk_rows(Team& team, const RowWalk& walk, F&& f) {
  const int across = team.index % walk.beside;
  const int down = team.index / walk.beside;
  const Index begin = static_cast<Index>(blockIdx.x) * walk.chunk_rows;
  const Index end = begin + walk.chunk_rows < walk.rows ? begin + walk.chunk_rows : walk.rows;
  for (int slice = static_cast<int>(blockIdx.y); slice < walk.slices;
       slice += static_cast<int>(gridDim.y)) {
    const int g = slice * walk.beside + across;
    for (Index base = begin; base < end; base += walk.at_once) {
      team.on = down < walk.at_once && base + down < end && g < walk.groups;
      f(team.on ? base + down : base, static_cast<Index>(team.on ? g : slice * walk.beside));
    }
  }
}

/// The rows that a team takes at once. The last may be missing: then some row that exists takes
/// its place, to be loaded and computed with like the others, but not to be counted or written.
template <int kRows>
struct RowBatch {
  Index begin;    // of the chunk
  int at[kRows];  // rows of the chunk
  bool on[kRows];

  __device__ Index row(int k) const { return begin + at[k]; }
};

/// f(batch, g) for all rows of the block's chunk and groups g, Team::kRows rows at a time: their
/// loads are all on the way before the first row is used, and what is read for columns, such as
/// gains, is read once for all of them. All threads of the block get there, with rows or not.
template <class Team, class F>
__device__ void walk_batches(Team& team, const RowWalk& walk, F&& f) {
  constexpr int kRows = Team::kRows;
  const int across = team.index % walk.beside;
  const int down = team.index / walk.beside;
  const Index begin = static_cast<Index>(blockIdx.x) * walk.chunk_rows;
  const Index left = walk.rows - begin;
  const auto count = static_cast<int>(left < walk.chunk_rows ? left : walk.chunk_rows);
  team.on = true;  // missing rows have others in their place
  for (int slice = static_cast<int>(blockIdx.y); slice < walk.slices;
       slice += static_cast<int>(gridDim.y)) {
    const int wanted = slice * walk.beside + across;
    const bool some = down < walk.at_once && wanted < walk.groups;
    const auto g = static_cast<Index>(wanted < walk.groups ? wanted : slice * walk.beside);
    for (int base = 0; base < count; base += kRows * walk.at_once) {
      RowBatch<kRows> batch;
      batch.begin = begin;
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        const int at = base + k * walk.at_once + down;
        batch.on[k] = some && at < count;
        batch.at[k] = batch.on[k] ? at : base;
        // A number like any other to the compiler: it would keep an address for every row of every
        // tensor over the whole loop, in registers that are missing for rows.
        asm volatile("" : "+r"(batch.at[k]));
      }
      f(batch, g);
    }
  }
}

/// use(r, g, load(r, g)) for all rows r of the block's chunk and groups g; the next row is loaded
/// before one is used. load looks at team.on.
template <class Team, class Load, class Use>
__device__ void walk_ahead(Team& team, const RowWalk& walk, Load&& load, Use&& use) {
  const int across = team.index % walk.beside;
  const int down = team.index / walk.beside;
  const Index begin = static_cast<Index>(blockIdx.x) * walk.chunk_rows;
  const Index end = begin + walk.chunk_rows < walk.rows ? begin + walk.chunk_rows : walk.rows;
  for (int slice = static_cast<int>(blockIdx.y); slice < walk.slices;
       slice += static_cast<int>(gridDim.y)) {
    const int wanted = slice * walk.beside + across;
    // The team's row of the round that starts at base; some row that exists if it has none.
    const auto turn_to = [&](Index base) {
      team.on = down < walk.at_once && base + down < end && wanted < walk.groups;
      return team.on ? base + down : begin;
    };
    const Index g = wanted < walk.groups ? wanted : slice * walk.beside;
    Index r = turn_to(begin);
    auto here = load(r, g);
    for (Index base = begin; base < end; base += walk.at_once) {
      const Index next_r = turn_to(base + walk.at_once);
      const auto next = load(next_r, g);
      r = turn_to(base);
      use(r, g, here);
      here = next;
    }
  }
}

}  // namespace norma::kernels
