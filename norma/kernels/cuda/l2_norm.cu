#include "norma/kernels/cuda/norm_gain.cuh"
#include "norma/kernels/cuda/row_team.cuh"
#include "norma/kernels/l2_norm.h"

namespace norma::kernels {

namespace {

/// gain_scale·gain for N columns from c on of the group that starts at column `at`.
template <int N, class A, class C>
__device__ void read_factors(const A& a, Index at, int c, C (&to)[N]) {
  if (a.gain == nullptr || a.gains != 1) {
    read_gain(a.gain, a.gains == a.group ? c : at + c, 0, to);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = read<C>(*a.gain);
  }
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] *= static_cast<C>(a.gain_scale);
}

template <class T, class Team>
__global__ void __launch_bounds__(Team::kThreads, 2)
    forward_kernel(L2NormForward<T> a, RowWalk walk) {
  using C = Math<T>;
  constexpr int N = Team::N;
  Team team(walk);
  walk_rows(team, walk, [&](Index r, Index g) {
    const Index at = g * a.group;
    Held<Team, const T> x(team, a.x.row(r) + at);
    C sums[1] = {};
    team.each([&](int p, int c) {
      C v[N];
      x.get(p, c, v);
#pragma unroll
      for (int i = 0; i < N; ++i) sums[0] += v[i] * v[i];
    });
    team.sum(sums);
    const C rnorm = sums[0] == 0 ? C{0} : 1 / sqrt(sums[0] + static_cast<C>(a.eps));
    if (team.first()) write(a.rnorm[r * walk.groups + g], rnorm);
    team.each([&](int p, int c) {
      C v[N];
      C factor[N];
      x.get(p, c, v);
      read_factors(a, at, c, factor);
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] = v[i] * rnorm * factor[i];
      put_row(a.y.row(r) + at + c, v, Into::set);
    });
  });
}

template <class T, class Team, Into kInto>
__global__ void __launch_bounds__(Team::kThreads, 2)
    backward_kernel(L2NormBackward<T> a, RowWalk walk, SumsOf<Wide<T>> partials, bool one_gain) {
  using C = Math<T>;
  constexpr int N = Team::N;
  const C scale = static_cast<C>(a.gain_scale);
  Team team(walk);
  const SumsOf<Wide<T>> to[1] = {partials};
  ColumnSums<1, Team, C, Wide<T>> dgain(team, walk, to);
  C total = 0;  // the gradient of a gain that all columns share
  walk_rows(team, walk, [&](Index r, Index g) {
    const Index at = g * a.group;
    Held<Team, const T> x(team, a.x.row(r) + at);
    Held<Team, const T> dy(team, a.dy.row(r) + at);
    const Former<Team, T, kInto> former(team, a.dx, r, at);
    const C rnorm = read<C>(a.rnorm[r * walk.groups + g]);
    C sums[2] = {};  // ⟨x/n, s·dy⟩, and the same without the gain
    team.each([&](int p, int c) {
      C v[N];
      C d[N];
      C factor[N];
      x.get(p, c, v);
      dy.get(p, c, d);
      read_factors(a, at, c, factor);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        d[i] *= v[i] * rnorm;
        sums[0] += d[i] * factor[i];
        d[i] *= scale;
        sums[1] += d[i];
      }
      dgain.add(0, p, c, d);
    });
    if (!a.dx && !one_gain) return;
    team.sum(sums);
    total += sums[1];
    if (!a.dx) return;
    team.each([&](int p, int c) {
      C v[N];
      C d[N];
      C factor[N];
      C sum[N];
      x.get(p, c, v);
      dy.get(p, c, d);
      former.get(p, c, sum);
      read_factors(a, at, c, factor);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += rnorm * (factor[i] * d[i] - v[i] * rnorm * sums[0]);
      put_row(a.dx.row(r) + at + c, sum, Into::set);
    });
  });
  dgain.finish(team);
  if (one_gain) finish_total(team, total, a.partials);
}

}  // namespace

template <class T>
void run(Cuda, const L2NormForward<T>& a) {
  constexpr int N = kPack<T>;
  const bool fit = row_packs(a.x, N) && row_packs(a.y, N) && (a.gains == 1 || row_packs(a.gain, N));
  with_team<T>(a.group, fit, [&]<class Team>(std::type_identity<Team>) {
    const RowWalk walk = row_walk<Team>(a.x.rows, a.x.cols / a.group, a.group);
    launch("l2_norm", walk.grid, Team::kThreads, 0, forward_kernel<T, Team>, a, walk);
  });
}
template void run(Cuda, const L2NormForward<float>&);
template void run(Cuda, const L2NormForward<Bf16>&);

template <class T>
void run(Cuda, const L2NormBackward<T>& a) {
  constexpr int N = kPack<T>;
  const bool fit = row_packs(a.x, N) && row_packs(a.dy, N) && row_packs(a.dx, N) &&
                   (a.gains == 1 || row_packs(a.gain, N));
  const bool one_gain = a.dgain != nullptr && a.gains == 1;
  const GroupSums<Wide<T>> dgain(
      one_gain ? nullptr : a.dgain, a.partials, a.x.cols, a.group, a.gains != a.group);
  const OverRows sums = one_gain ? OverRows::folded : dgain.over_rows();
  with_team<T, 3>(a.group, fit, [&]<class Team>(std::type_identity<Team>) {
    const RowWalk walk = row_walk<Team>(a.x.rows, a.x.cols / a.group, a.group, sums);
    const auto kernel = a.dx && a.dx_into == Into::add ? backward_kernel<T, Team, Into::add>
                                                       : backward_kernel<T, Team, Into::set>;
    launch("the gradient of l2_norm",
           walk.grid,
           Team::kThreads,
           0,
           kernel,
           a,
           walk,
           dgain.to,
           one_gain);
  });
  dgain.finish(a.x.rows, a.dgain_into);
  if (one_gain) {
    finish_columns(a.partials, gpu_chunks(a.x.rows).count, 1, a.dgain, a.dgain_into);
  }
}
template void run(Cuda, const L2NormBackward<float>&);
template void run(Cuda, const L2NormBackward<Bf16>&);

}  // namespace norma::kernels
