#include "norma/kernels/cuda/norm_centre.cuh"
#include "norma/kernels/cuda/norm_gain.cuh"
#include "norma/kernels/cuda/row_norm_gradient.h"
#include "norma/kernels/cuda/row_team.cuh"
#include "norma/kernels/layer_norm.h"

namespace norma::kernels {

namespace {

/// Where a thread holds much of its rows, there are registers for fewer of them.
template <class Team>
inline constexpr int kForwardThreads = (Team::kPacks * Team::kRows > 3) ? 768 : 1024;

template <class T, class Team>
__global__ void __launch_bounds__(Team::kThreads, kRowBlocks<T, Team, kForwardThreads<Team>>)
    forward_kernel(LayerNormForward<T> a, RowWalk walk) {
  using C = Math<T>;
  constexpr int N = Team::N;
  constexpr int kRows = Team::kRows;
  Team team(walk);
  const C offset = static_cast<C>(a.gain_offset);
  walk_batches(team, walk, [&](const RowBatch<kRows>& rows, Index g) {
    const Index at = g * a.group;
    Held<Team, const T> x[kRows];
#pragma unroll
    for (int k = 0; k < kRows; ++k) x[k] = {team, a.x.row(rows.row(k)) + at};
    Spread<C> s[kRows];
    spread(team, x, s);
    C mean[kRows];
    C rstd[kRows];
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      mean[k] = s[k].mean + s[k].shift;
      rstd[k] = inverse_root(s[k].variance + static_cast<C>(a.eps));
      if (!rows.on[k] || !team.first()) continue;
      const Index vector = rows.row(k) * walk.groups + g;
      write_mean(s[k], a.mean[vector], a.shift[vector]);
      write(a.rstd[vector], rstd[k]);
    }
    team.each([&](int p, int c) {
      const Index place = a.gain_per_column ? at + c : c;
      C gain[N];
      C bias[N];
      read_gain(a.gain, place, offset, gain);
      read_bias(a.bias, place, bias);
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        C v[N];
        x[k].get(p, c, v);
#pragma unroll
        for (int i = 0; i < N; ++i) v[i] = normed(v[i], mean[k], rstd[k], gain[i], bias[i]);
        if (rows.on[k]) put_row(a.y.row(rows.row(k)) + at + c, v, Into::set);
      }
    });
  });
}

template <class T, class Team, Into kInto>
__global__ void __launch_bounds__(Team::kThreads, 2) backward_kernel(LayerNormBackward<T> a,
                                                                     RowWalk walk,
                                                                     SumsOf<Wide<T>> gain_sums,
                                                                     SumsOf<Wide<T>> bias_sums) {
  using C = Math<T>;
  constexpr int N = Team::N;
  constexpr int kRows = Team::kRows;
  Team team(walk);
  const SumsOf<Wide<T>> to[2] = {gain_sums, bias_sums};
  ColumnSums<2, Team, C, Wide<T>> over_rows(team, walk, to);
  const C weight = 1 / static_cast<C>(a.group);
  const C offset = static_cast<C>(a.gain_offset);
  walk_batches(team, walk, [&](const RowBatch<kRows>& rows, Index g) {
    const Index at = g * a.group;
    Held<Team, const T> x[kRows];
    Held<Team, const T> dy[kRows];
    Former<Team, T, kInto> former[kRows];
    C mean[kRows];
    C rstd[kRows];
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      const Index vector = rows.row(k) * walk.groups + g;
      x[k] = {team, a.x.row(rows.row(k)) + at};
      dy[k] = {team, a.dy.row(rows.row(k)) + at};
      mean[k] = read<C>(a.mean[vector]) + read<C>(a.shift[vector]);
      rstd[k] = read<C>(a.rstd[vector]);
    }
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      former[k] = {team, a.dx, rows.row(k), at};
      if (!rows.on[k]) dy[k].clear();
    }
    C sums[kRows][2] = {};  // Σ dy·gain, Σ dy·gain·(x − mean)
    team.each([&](int p, int c) {
      C gain[N];
      read_gain(a.gain, a.gain_per_column ? at + c : c, offset, gain);
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        C v[N];
        C d[N];
        x[k].get(p, c, v);
        dy[k].get(p, c, d);
        over_rows.add(1, p, c, d);
#pragma unroll
        for (int i = 0; i < N; ++i) {
          sums[k][0] = fma(d[i], gain[i], sums[k][0]);
          d[i] *= v[i] - mean[k];
          sums[k][1] = fma(d[i], gain[i], sums[k][1]);
        }
        over_rows.add_products(0, p, c, d, rstd[k]);
      }
    });
    if (!a.dx) return;
    team.sum(sums);
    C along[kRows];
    C bend[kRows];  // rstd·x̂·⟨dy·gain, x̂⟩ is bend·(x − mean)
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      along[k] = sums[k][0] * weight;
      bend[k] = rstd[k] * (rstd[k] * sums[k][1] * weight);
      x[k].look_again();
      dy[k].look_again();
    }
    team.each([&](int p, int c) {
      C gain[N];
      read_gain(a.gain, a.gain_per_column ? at + c : c, offset, gain);
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        C v[N];
        C d[N];
        C sum[N];
        x[k].get(p, c, v);
        dy[k].get(p, c, d);
        former[k].get(p, c, sum);
#pragma unroll
        for (int i = 0; i < N; ++i) {
          sum[i] =
              plus_norm_gradient(sum[i], rstd[k], d[i], gain[i], along[k], v[i] - mean[k], bend[k]);
        }
        if (rows.on[k]) put_row(a.dx.row(rows.row(k)) + at + c, sum, Into::set);
      }
    });
  });
  over_rows.finish(team);
}

}  // namespace

template <class T>
void run(Cuda, const LayerNormForward<T>& a) {
  constexpr int N = kPack<T>;
  const bool fit =
      row_packs(a.x, N) && row_packs(a.y, N) && row_packs(a.gain, N) && row_packs(a.bias, N);
  with_team<T, 4, 4>(a.group, fit, [&]<class Team>(std::type_identity<Team>) {
    const RowWalk walk = row_walk<Team>(a.x.rows, a.x.cols / a.group, a.group);
    launch("layer_norm", walk.grid, Team::kThreads, 0, forward_kernel<T, Team>, a, walk);
  });
}
template void run(Cuda, const LayerNormForward<float>&);
template void run(Cuda, const LayerNormForward<Bf16>&);

template <class T>
void run(Cuda, const LayerNormBackward<T>& a) {
  constexpr int N = kPack<T>;
  if (a.group == a.x.cols && run_quick(as_add_norm(a))) return;
  const bool fit =
      row_packs(a.x, N) && row_packs(a.dy, N) && row_packs(a.dx, N) && row_packs(a.gain, N);
  const GroupSums<Wide<T>> dgain(a.dgain, a.gain_partials, a.x.cols, a.group, a.gain_per_column);
  const GroupSums<Wide<T>> dbias(a.dbias, a.bias_partials, a.x.cols, a.group, a.gain_per_column);
  with_team<T, 3>(a.group, fit, [&]<class Team>(std::type_identity<Team>) {
    const RowWalk walk = row_walk<Team>(a.x.rows,
                                        a.x.cols / a.group,
                                        a.group,
                                        a.dgain != nullptr ? dgain.over_rows() : dbias.over_rows());
    const auto kernel = a.dx && a.dx_into == Into::add ? backward_kernel<T, Team, Into::add>
                                                       : backward_kernel<T, Team, Into::set>;
    launch("the gradient of layer_norm",
           walk.grid,
           Team::kThreads,
           0,
           kernel,
           a,
           walk,
           dgain.to,
           dbias.to);
  });
  dgain.finish(a.x.rows, a.dgain_into);
  dbias.finish(a.x.rows, a.dbias_into);
}
template void run(Cuda, const LayerNormBackward<float>&);
template void run(Cuda, const LayerNormBackward<Bf16>&);

}  // namespace norma::kernels
