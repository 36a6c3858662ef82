// Sums over rows, one for each column of a team, kept in registers while it walks a chunk of rows.
#pragma once

#include "norma/kernels/cuda/column_sums.cuh"
#include "norma/kernels/cuda/row_walk.cuh"

namespace norma::kernels {

/// Where sums over rows go: column c of group g of chunk k to data[k·row + g·group + c·step].
template <class P>
struct SumsOf {
  P* data;  // null: not wanted
  Index row;
  Index group;  // 0 when the groups are added up
  int step = 1;

  __device__ P& operator()(Index g, int c) const {
    return data[static_cast<Index>(blockIdx.x) * row + g * group + static_cast<Index>(c) * step];
  }
};

/// Sums over the rows of a block's chunk for the columns of its teams, in type C; put into partials
/// of type P at the end. All threads of the block call the constructor and finish().
template <int K, class Team, class C, class P>
struct ColumnSums {
  C at[K][Team::kPacks > 0 ? Team::kPacks : 1][Team::N] = {};
  const SumsOf<P> (&to)[K];
  const RowWalk& walk;

  __device__ ColumnSums(const Team& team, const RowWalk& w, const SumsOf<P> (&partials)[K])
      : to(partials), walk(w) {
    if constexpr (Team::kPacks == 0) {
      // One team per block: a column belongs to one thread, which adds up in memory.
#pragma unroll
      for (int k = 0; k < K; ++k) {
        if (to[k].data != nullptr)
          team.each_column([&](int, int c) { to[k](blockIdx.y, c) = P{0}; });
      }
    }
  }

  __device__ void add(int k, int p, int c, const C (&values)[Team::N]) {
    add_products(k, p, c, values, C{1});
  }
  /// Adds values·factor, rounded once.
  __device__ void add_products(int k, int p, int c, const C (&values)[Team::N], C factor) {
    if constexpr (Team::kPacks > 0) {
#pragma unroll
      for (int i = 0; i < Team::N; ++i) at[k][p][i] = fma(values[i], factor, at[k][p][i]);
    } else if (to[k].data != nullptr) {
      P& sum = to[k](blockIdx.y, c);
      write(sum, fma(values[0], factor, read<C>(sum)));
    }
  }

  /// Adds what the teams of the block have, in the order of teams.
  __device__ void finish(const Team& team) {
    if constexpr (Team::kPacks > 0) {
#pragma unroll
      for (int k = 0; k < K; ++k) {
        if (to[k].data == nullptr) continue;
#pragma unroll
        for (int p = 0; p < Team::kPacks; ++p) finish_pack(team, k, p);
      }
    }
  }

 private:
  __device__ void finish_pack(const Team& team, int k, int p) {
    constexpr int kWide = Team::kSpan * Team::N;
    constexpr int kInWarp = Team::kSpan < 32 ? 32 / Team::kSpan : 1;
    __shared__ C shared[Team::kTeams][kWide];
    if (walk.folded) {
#pragma unroll
      for (int i = 0; i < Team::N; ++i) {
#pragma unroll
        for (int step = Team::kSpan; step < 32; step *= 2) {
          at[k][p][i] += __shfl_xor_sync(0xFFFFFFFFU, at[k][p][i], step);
        }
      }
    }
    __syncthreads();  // the last pack has been read
#pragma unroll
    for (int i = 0; i < Team::N; ++i) shared[team.index][team.lane * Team::N + i] = at[k][p][i];
    __syncthreads();
    const int beside = walk.folded ? 1 : walk.beside;
    const int step = walk.folded ? kInWarp : walk.beside;
    const int count = walk.folded ? Team::kTeams / kInWarp : walk.at_once;
    for (int o = static_cast<int>(threadIdx.x); o < beside * kWide; o += Team::kThreads) {
      const int across = o / kWide;
      const int c = p * kWide + o % kWide;
      const int g = static_cast<int>(blockIdx.y) * beside + across;
      if (c >= walk.width || g >= walk.groups) continue;
      C sum = 0;
      for (int i = 0; i < count; ++i) sum += shared[across + i * step][o % kWide];
      write(to[k](g, c), sum);
    }
  }
};

/// Adds one number of each team, known to all its threads, in the order of teams: the block's entry
/// of partials (chunks). All threads of the block call it.
template <class Team, class C, class P>
__device__ void finish_total(const Team& team, C total, P* partials) {
  __shared__ C shared[Team::kTeams];
  if (team.lane == 0) shared[team.index] = total;
  __syncthreads();
  if (threadIdx.x != 0) return;
  C sum = 0;
  for (int i = 0; i < Team::kTeams; ++i) sum += shared[i];
  write(partials[blockIdx.x], sum);
}

/// The gradient of a gain or bias that has one entry per place in a group, or one per column.
template <class P>
struct GroupSums {
  GroupSums(P* gradient, P* partials, Index cols, Index group, bool per_column_)
      : out(gradient),
        length(per_column_ ? cols : group),
        per_column(per_column_),
        to{gradient == nullptr ? nullptr : partials, length, per_column_ ? group : 0} {}

  OverRows over_rows() const {
    if (out == nullptr) return OverRows::none;
    return per_column ? OverRows::per_column : OverRows::folded;
  }
  void finish(Index rows, Into into) const {
    if (out == nullptr) return;
    finish_columns(to.data, gpu_chunks(rows).count, length, out, into);
  }

  P* out;  // null: not wanted
  Index length;
  bool per_column;
  SumsOf<P> to;
};

}  // namespace norma::kernels
