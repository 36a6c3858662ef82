// Rows, or groups of a row such as heads, each worked on by a team of threads that holds it in
// registers: a row is read once however many sums over it are needed. Teams of a block walk a chunk
// of rows side by side and may keep sums over rows for their columns.
//
//   template <class T, class Team>
//   __global__ void __launch_bounds__(Team::kThreads, 2) kernel(Arguments<T> a, RowWalk walk) {
//     Team team(walk);
//     walk_rows(team, walk, [&](Index r, Index g) {
//       Held<Team, const T> x(team, a.x.row(r) + g * a.group);
//       C sums[1] = {};
//       team.each([&](int p, int c) { C v[Team::N]; x.get(p, c, v); … sums[0] += …; });
//       team.sum(sums);
//       team.each([&](int p, int c) { … put_row(a.y.row(r) + g * a.group + c, v, into); });
//     });
//   }
//   with_team<T>(width, packs_fit, [&]<class Team>(std::type_identity<Team>) {
//     const RowWalk walk = row_walk<Team>(rows, groups, width, sums);
//     launch("…", walk.grid, Team::kThreads, 0, kernel<T, Team>, a, walk);
//   });
#pragma once

#include <algorithm>
#include <type_traits>

#include "norma/kernels/cuda/column_sums.cuh"
#include "norma/kernels/cuda/row_packs.cuh"

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
/// width, which are read again in every loop over them.
template <int kSpan_, int kPacks_, int N_>
struct RowTeam {
  static constexpr int kSpan = kSpan_;
  static constexpr int kPacks = kPacks_;
  static constexpr int N = N_;
  // Two blocks fit a multiprocessor; a thread that holds little leaves registers for more of them.
  static constexpr int kThreads = kSpan <= 32 && kPacks == 1 ? 512 : 256;
  static constexpr int kTeams = kThreads / kSpan;
  static_assert(kThreads % kSpan == 0 && (kPacks > 0 || N == 1));

  int width;        // of the row this team has; 0 when it has none
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
        if (c < width) f(p, c);
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
      asm volatile("bar.sync %0, %1;" ::"r"(index + 1), "n"(kSpan) : "memory");
#pragma unroll
      for (int k = 0; k < K; ++k) {
        values[k] = 0;
#pragma unroll
        for (int w = 0; w < kSpan / 32; ++w) values[k] += mine[index * (kSpan / 32) + w][k];
      }
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

/// A row in the registers of its team, as it is stored.
template <class Team, class T>
struct Held {
  using V = std::remove_const_t<T>;
  V raw[Team::kPacks > 0 ? Team::kPacks : 1][Team::N];
  T* at;

  /// Reads the row at `from`.
  __device__ Held(const Team& team, T* from) : at(from) {
    if constexpr (Team::kPacks > 0) {
      team.each([&](int p, int c) { load_row(at + c, raw[p]); });
    }
  }
  /// Nothing is held before keep.
  __device__ explicit Held(T* to) : at(to) {}

  template <class C>
  __device__ void get(int p, int c, C (&to)[Team::N]) const {
    if constexpr (Team::kPacks > 0) {
#pragma unroll
      for (int i = 0; i < Team::N; ++i) to[i] = read<C>(raw[p][i]);
    } else {
      to[0] = read<C>(at[c]);
    }
  }
  /// Writes to memory, rounded to T, and holds what was written.
  template <class C>
  __device__ void keep(int p, int c, const C (&values)[Team::N]) {
#pragma unroll
    for (int i = 0; i < Team::N; ++i) write(raw[p][i], values[i]);
    store_row(at + c, raw[p]);
  }
};

/// A row to set or to add to: what is added to is read at the start, with the other rows.
template <class Team, class T>
struct Slot {
  T raw[Team::kPacks > 0 ? Team::kPacks : 1][Team::N];
  T* at;
  Into into;

  __device__ Slot(const Team& team, const Rows<T>& rows, Index r, Index column, Into how)
      : at(rows.data == nullptr ? nullptr : rows.row(r) + column), into(how) {
    if constexpr (Team::kPacks > 0) {
      if (at == nullptr || into == Into::set) return;
      team.each([&](int p, int c) { load_row(at + c, raw[p]); });
    }
  }
  /// Not to be called without rows.
  template <class C>
  __device__ void put(int p, int c, const C (&values)[Team::N]) {
    if constexpr (Team::kPacks > 0) {
#pragma unroll
      for (int i = 0; i < Team::N; ++i) {
        write(raw[p][i], into == Into::add ? read<C>(raw[p][i]) + values[i] : values[i]);
      }
      store_row(at + c, raw[p]);
    } else {
      put_row(at + c, values, into);
    }
  }
};

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
    if constexpr (Team::kPacks > 0) {
#pragma unroll
      for (int i = 0; i < Team::N; ++i) at[k][p][i] += values[i];
    } else if (to[k].data != nullptr) {
      P& sum = to[k](blockIdx.y, c);
      write(sum, read<C>(sum) + values[0]);
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

/// How a team walks the rows of a matrix. With sums over rows the chunks are those of gpu_chunks.
template <class Team>
RowWalk row_walk(Index rows, Index groups, Index width, OverRows sums = OverRows::none) {
  constexpr Index kBlocks = Index{132} * 16;  // enough that the last ones to finish do not matter
  RowWalk walk{};
  walk.rows = rows;
  walk.groups = static_cast<int>(groups);
  walk.width = static_cast<int>(width);
  walk.beside = static_cast<int>(std::min<Index>(groups, Team::kTeams));
  walk.at_once = Team::kTeams / walk.beside;
  walk.slices = static_cast<int>((groups + walk.beside - 1) / walk.beside);
  walk.folded = sums == OverRows::folded || groups == 1;
  if (sums == OverRows::none) {
    const Index rounds = (rows + walk.at_once - 1) / walk.at_once;
    walk.chunk_rows = std::max<Index>(1, (rounds + kBlocks - 1) / kBlocks) * walk.at_once;
  } else {
    walk.chunk_rows = gpu_chunks(rows).size;
  }
  const bool alone = sums == OverRows::folded;
  walk.grid = dim3(static_cast<unsigned>((rows + walk.chunk_rows - 1) / walk.chunk_rows),
                   alone ? 1U : static_cast<unsigned>(walk.slices),
                   1);
  return walk;
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

/// f(std::type_identity<Team>{}) with the team for groups of `width`, in packs of 16 bytes of T
/// where `fit` says that all pointers and strides allow them.
template <class T, class F>
void with_team(Index width, bool fit, F&& f) {
  constexpr int N = kPack<T>;
  const auto with = [&]<int kSpan, int kPacks, int kN>() {
    f(std::type_identity<RowTeam<kSpan, kPacks, kN>>{});
  };
  const Index packs = width / N;
  if (!fit || width % N != 0 || packs > 1024) {
    if (width <= 64) return with.template operator()<32, 2, 1>();
    if (width <= 2048) return with.template operator()<256, 8, 1>();
    return with.template operator()<256, 0, 1>();
  }
  if constexpr (std::is_same_v<T, float>) {  // the mode for comparisons: few kernels
    if (packs <= 16) return with.template operator()<16, 1, N>();
    if (packs <= 128) return with.template operator()<32, 4, N>();
    if (packs <= 512) return with.template operator()<128, 4, N>();
  } else {
    if (packs <= 8) return with.template operator()<8, 1, N>();
    if (packs <= 16) return with.template operator()<16, 1, N>();
    if (packs <= 64) return with.template operator()<32, 2, N>();
    if (packs <= 96) return with.template operator()<32, 3, N>();
    if (packs <= 128) return with.template operator()<32, 4, N>();
    if (packs <= 192) return with.template operator()<64, 3, N>();
    if (packs <= 256) return with.template operator()<64, 4, N>();
    if (packs <= 512) return with.template operator()<128, 4, N>();
  }
  return with.template operator()<256, 4, N>();
}

}  // namespace norma::kernels
