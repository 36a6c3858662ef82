#include "norma/kernels/cuda/norm_centre.cuh"
#include "norma/kernels/cuda/norm_gain.cuh"
#include "norma/kernels/cuda/row_norm_gradient.h"
#include "norma/kernels/cuda/row_team.cuh"
#include "norma/kernels/rms_norm.h"

namespace norma::kernels {

namespace {

template <class T, class Team>
__global__ void __launch_bounds__(Team::kThreads, kRowBlocks<T, Team, 1024>)
    forward_kernel(RmsNormForward<T> a, RowWalk walk) {
  using C = Math<T>;
  constexpr int N = Team::N;
  constexpr int kRows = Team::kRows;
  Team team(walk);
  const C weight = 1 / static_cast<C>(a.group);
  const C offset = static_cast<C>(a.gain_offset);
  walk_batches(team, walk, [&](const RowBatch<kRows>& rows, Index g) {
    const Index at = g * a.group;
    Held<Team, const T> x[kRows];
#pragma unroll
    for (int k = 0; k < kRows; ++k) x[k] = {team, a.x.row(rows.row(k)) + at};
    C rstd[kRows];
    squares(team, x, rstd);
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      rstd[k] = rms_rstd(rstd[k], weight, a.eps);
      if (rows.on[k] && team.first()) write(a.rstd[rows.row(k) * walk.groups + g], rstd[k]);
    }
    team.each([&](int p, int c) {
      C gain[N];
      read_gain(a.gain, a.gain_per_column ? at + c : c, offset, gain);
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        C v[N];
        x[k].get(p, c, v);
#pragma unroll
        for (int i = 0; i < N; ++i) v[i] = normed(v[i], C{0}, rstd[k], gain[i], C{0});
        if (rows.on[k]) put_row(a.y.row(rows.row(k)) + at + c, v, Into::set);
      }
    });
  });
}

template <class T, class Team, Into kInto>
__global__ void __launch_bounds__(Team::kThreads, 2)
    backward_kernel(RmsNormBackward<T> a, RowWalk walk, SumsOf<Wide<T>> partials) {
  using C = Math<T>;
  constexpr int N = Team::N;
  constexpr int kRows = Team::kRows;
  Team team(walk);
  const SumsOf<Wide<T>> to[1] = {partials};
  ColumnSums<1, Team, C, Wide<T>> dgain(team, walk, to);
  const C weight = 1 / static_cast<C>(a.group);
  const C offset = static_cast<C>(a.gain_offset);
  walk_batches(team, walk, [&](const RowBatch<kRows>& rows, Index g) {
    const Index at = g * a.group;
    Held<Team, const T> x[kRows];
    Held<Team, const T> dy[kRows];
    Former<Team, T, kInto> former[kRows];
    C rstd[kRows];
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      x[k] = {team, a.x.row(rows.row(k)) + at};
      dy[k] = {team, a.dy.row(rows.row(k)) + at};
      rstd[k] = read<C>(a.rstd[rows.row(k) * walk.groups + g]);
    }
    C sums[kRows] = {};  // Σ dy·gain·x
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      former[k] = {team, a.dx, rows.row(k), at};
      if (!rows.on[k]) dy[k].clear();
    }
    team.each([&](int p, int c) {
      C gain[N];
      read_gain(a.gain, a.gain_per_column ? at + c : c, offset, gain);
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        C v[N];
        C d[N];
        x[k].get(p, c, v);
        dy[k].get(p, c, d);
#pragma unroll
        for (int i = 0; i < N; ++i) {
          d[i] *= v[i];
          sums[k] = fma(d[i], gain[i], sums[k]);
        }
        dgain.add_products(0, p, c, d, rstd[k]);
      }
    });
    if (!a.dx) return;
    team.sum(sums);
    // rstd·(dy·gain − x̂·Σ dy·gain·x̂ / group)
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      x[k].look_again();
      dy[k].look_again();
      sums[k] = rstd[k] * (rstd[k] * sums[k] * weight);
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
          sum[i] = plus_norm_gradient(sum[i], rstd[k], d[i], gain[i], C{0}, v[i], sums[k]);
        }
        if (rows.on[k]) put_row(a.dx.row(rows.row(k)) + at + c, sum, Into::set);
      }
    });
  });
  dgain.finish(team);
}

}  // namespace

template <class T>
void run(Cuda, const RmsNormForward<T>& a) {
  constexpr int N = kPack<T>;
  const bool fit = row_packs(a.x, N) && row_packs(a.y, N) && row_packs(a.gain, N);
  with_team<T, 4, 4>(a.group, fit, [&]<class Team>(std::type_identity<Team>) {
    const RowWalk walk = row_walk<Team>(a.x.rows, a.x.cols / a.group, a.group);
    launch("rms_norm", walk.grid, Team::kThreads, 0, forward_kernel<T, Team>, a, walk);
  });
}
template void run(Cuda, const RmsNormForward<float>&);
template void run(Cuda, const RmsNormForward<Bf16>&);

template <class T>
void run(Cuda, const RmsNormBackward<T>& a) {
  constexpr int N = kPack<T>;
  if (a.group == a.x.cols && run_quick(as_add_norm(a))) return;
  const bool fit =
      row_packs(a.x, N) && row_packs(a.dy, N) && row_packs(a.dx, N) && row_packs(a.gain, N);
  const GroupSums<Wide<T>> dgain(a.dgain, a.partials, a.x.cols, a.group, a.gain_per_column);
  with_team<T, 3, 2>(a.group, fit, [&]<class Team>(std::type_identity<Team>) {
    const RowWalk walk = row_walk<Team>(a.x.rows, a.x.cols / a.group, a.group, dgain.over_rows());
    const auto kernel = a.dx && a.dx_into == Into::add ? backward_kernel<T, Team, Into::add>
                                                       : backward_kernel<T, Team, Into::set>;
    launch("the gradient of rms_norm", walk.grid, Team::kThreads, 0, kernel, a, walk, dgain.to);
  });
  dgain.finish(a.x.rows, a.dgain_into);
}
template void run(Cuda, const RmsNormBackward<float>&);
template void run(Cuda, const RmsNormBackward<Bf16>&);

}  // namespace norma::kernels
