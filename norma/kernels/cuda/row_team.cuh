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

/// f(std::type_identity<Team>{}) with the team for groups of `width`, in packs of 16 bytes of T
/// where `fit` says that all pointers and strides allow them. Kernels that hold many rows or sums
/// per thread ask for at most 3 packs of each, while there are threads for it; those that load the
/// next row ahead as well ask for 1.
template <class T, int kMost = 4, class F>
void with_team(Index width, bool fit, F&& f) {
  static_assert(kMost == 1 || kMost == 3 || kMost == 4);
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
    if (packs <= 64) return with.template operator()<32, 2, N>();
    if (packs <= 512) return with.template operator()<256, 2, N>();
  } else {
    if (packs <= 8) return with.template operator()<8, 1, N>();
    if (packs <= 16) return with.template operator()<16, 1, N>();
    if (packs <= 64) return with.template operator()<32, 2, N>();
    if constexpr (kMost == 1) {
      constexpr int kThreads = 384;
      if (packs <= 96) return f(std::type_identity<RowTeam<96, 1, N, kThreads>>{});
      if (packs <= 128) return f(std::type_identity<RowTeam<128, 1, N, kThreads>>{});
      if (packs <= 192) return f(std::type_identity<RowTeam<192, 1, N, kThreads>>{});
    } else {
      if (packs <= 96) return with.template operator()<32, 3, N>();
      if constexpr (kMost == 4) {
        if (packs <= 128) return with.template operator()<32, 4, N>();
      } else {
        if (packs <= 128) return with.template operator()<64, 2, N>();
      }
      if (packs <= 192) return with.template operator()<64, 3, N>();
    }
    if (packs <= 256) return with.template operator()<128, 2, N>();
    if (packs <= 512) return with.template operator()<256, 2, N>();
  }
  return with.template operator()<256, 4, N>();
}

}  // namespace norma::kernels
