// Rows, or groups of a row such as heads, each worked on by a team of threads that holds it in
// registers: a row is read once however many sums over it are needed. Teams of a block walk a chunk
// of rows side by side and may keep sums over rows for their columns. walk_batches instead of
// walk_rows gives a team several rows at once (rms_norm.cu shows it): more bytes on their way.
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

#include "norma/kernels/cuda/row_held.cuh"
#include "norma/kernels/cuda/row_sums.cuh"
#include "norma/kernels/cuda/row_walk.cuh"

namespace norma::kernels {

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
    const Index round = Index{Team::kRows} * walk.at_once;
    const Index rounds = (rows + round - 1) / round;
    walk.chunk_rows = std::max<Index>(1, (rounds + kBlocks - 1) / kBlocks) * round;
  } else {
    walk.chunk_rows = gpu_chunks(rows).size;
  }
  const bool alone = sums == OverRows::folded;
  walk.grid = dim3(static_cast<unsigned>((rows + walk.chunk_rows - 1) / walk.chunk_rows),
                   alone ? 1U : static_cast<unsigned>(walk.slices),
                   1);
  return walk;
}

/// Blocks to a multiprocessor for kernels without sums over rows: beside bf16 as many as make
/// kThreads threads, so that what some of them load hides behind the sums of others, but at
/// least 2.
template <class T, class Team, int kThreads>
inline constexpr int kRowBlocks = std::is_same_v<T, float> ? 2
                                                           : std::max(2, kThreads / Team::kThreads);

/// f(std::type_identity<Team>{}) with the team for groups of `width`, in packs of 16 bytes of T
/// where `fit` says that all pointers and strides allow them. Kernels that hold many rows or sums
/// per thread ask for at most 3 packs of each, while there are threads for it. kHeld: packs of bf16
/// that a thread may hold of all rows of a batch, for kernels that walk in batches.
template <class T, int kMost = 4, int kHeld = 1, class F>
void with_team(Index width, bool fit, F&& f) {
  static_assert(kMost == 3 || kMost == 4);
  constexpr int N = kPack<T>;
  constexpr bool kFew = std::is_same_v<T, float>;  // the mode for comparisons: few kernels
  const auto with = [&]<int kSpan, int kPacks, int kN, int kThreads>() {
    constexpr int kRowsHeld = std::clamp(kHeld / std::max(kPacks, 1), 1, kPacks == 1 ? 3 : 2);
    constexpr int kRows = kFew || kN == 1 ? 1 : kRowsHeld;
    if constexpr (kMost == 4 && !kFew && kN > 1 && kSpan == 32 && kPacks > 2 && kRows == 1) {
      using Full = RowTeam<kSpan, kPacks, kN, kThreads, kRows, true>;
      if (width == Index{kSpan} * kPacks * kN) return f(std::type_identity<Full>{});
    }
    f(std::type_identity<RowTeam<kSpan, kPacks, kN, kThreads, kRows>>{});
  };
  const Index packs = width / N;
  if (!fit || width % N != 0 || packs > 1024) {
    if (width <= 64) return with.template operator()<32, 2, 1, 256>();
    if (width <= 2048) return with.template operator()<256, 8, 1, 256>();
    return with.template operator()<256, 0, 1, 256>();
  }
  if constexpr (kFew) {
    if (packs <= 16) return with.template operator()<16, 1, N, 512>();
    if (packs <= 64) return with.template operator()<32, 2, N, 256>();
    if (packs <= 512) return with.template operator()<256, 2, N, 256>();
  } else {
    if (packs <= 8) return with.template operator()<8, 1, N, 512>();
    if (packs <= 16) return with.template operator()<16, 1, N, 512>();
    if (packs <= 64) return with.template operator()<32, 2, N, 256>();
    if (packs <= 96) return with.template operator()<32, 3, N, 256>();
    if constexpr (kMost == 4) {
      if (packs <= 128) return with.template operator()<32, 4, N, 256>();
      if (packs <= 160) return with.template operator()<32, 5, N, 256>();
    } else {
      if (packs <= 128) return with.template operator()<64, 2, N, 256>();
    }
    if (packs <= 192) return with.template operator()<64, 3, N, 256>();
    if (packs <= 256) return with.template operator()<128, 2, N, 256>();
    if (packs <= 512) return with.template operator()<256, 2, N, 256>();
  }
  return with.template operator()<256, 4, N, 256>();
}

}  // namespace norma::kernels
