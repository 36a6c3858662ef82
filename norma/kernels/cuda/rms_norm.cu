#include "norma/kernels/cuda/norm_gain.cuh"
#include "norma/kernels/cuda/row_team.cuh"
#include "norma/kernels/rms_norm.h"

namespace norma::kernels {

namespace {

template <class T, class Team>
__global__ void __launch_bounds__(Team::kThreads, 2)
    forward_kernel(RmsNormForward<T> a, RowWalk walk) {
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
    const C rstd = 1 / sqrt(sums[0] / static_cast<C>(a.group) + static_cast<C>(a.eps));
    if (team.first()) write(a.rstd[r * walk.groups + g], rstd);
    team.each([&](int p, int c) {
      C v[N];
      C gain[N];
      x.get(p, c, v);
      read_gain(a.gain, a.gain_per_column ? at + c : c, a.gain_offset, gain);
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] = v[i] * rstd * gain[i];
      put_row(a.y.row(r) + at + c, v, Into::set);
    });
  });
}

template <class T, class Team>
__global__ void __launch_bounds__(Team::kThreads, 2)
    backward_kernel(RmsNormBackward<T> a, RowWalk walk, SumsOf<Wide<T>> partials) {
  using C = Math<T>;
  constexpr int N = Team::N;
  Team team(walk);
  const SumsOf<Wide<T>> to[1] = {partials};
  ColumnSums<1, Team, C, Wide<T>> dgain(team, walk, to);
  struct Loaded {
    Held<Team, const T> x;
    Held<Team, const T> dy;
    C rstd;
  };
  const auto load = [&](Index r, Index g) {
    const Index at = g * a.group;
    return Loaded{
        {team, a.x.row(r) + at}, {team, a.dy.row(r) + at}, read<C>(a.rstd[r * walk.groups + g])};
  };
  walk_ahead(team, walk, load, [&](Index r, Index g, const Loaded& held) {
    const auto& [x, dy, rstd] = held;
    const Index at = g * a.group;
    Slot<Team, T> dx(team, a.dx, r, at, a.dx_into);
    C sums[1] = {};  // Σ dy·gain·x̂
    team.each([&](int p, int c) {
      C xhat[N];
      C d[N];
      C gain[N];
      x.get(p, c, xhat);
      dy.get(p, c, d);
      read_gain(a.gain, a.gain_per_column ? at + c : c, a.gain_offset, gain);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        d[i] *= xhat[i] * rstd;
        sums[0] += d[i] * gain[i];
      }
      dgain.add(0, p, c, d);
    });
    if (!a.dx) return;
    team.sum(sums);
    const C dot = sums[0] / static_cast<C>(a.group);
    team.each([&](int p, int c) {
      C v[N];
      C d[N];
      C gain[N];
      x.get(p, c, v);
      dy.get(p, c, d);
      read_gain(a.gain, a.gain_per_column ? at + c : c, a.gain_offset, gain);
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] = rstd * (d[i] * gain[i] - v[i] * rstd * dot);
      dx.put(p, c, v);
    });
  });
  dgain.finish(team);
}

}  // namespace

template <class T>
void run(Cuda, const RmsNormForward<T>& a) {
  constexpr int N = kPack<T>;
  const bool fit = row_packs(a.x, N) && row_packs(a.y, N) && row_packs(a.gain, N);
  with_team<T>(a.group, fit, [&]<class Team>(std::type_identity<Team>) {
    const RowWalk walk = row_walk<Team>(a.x.rows, a.x.cols / a.group, a.group);
    launch("rms_norm", walk.grid, Team::kThreads, 0, forward_kernel<T, Team>, a, walk);
  });
}
template void run(Cuda, const RmsNormForward<float>&);
template void run(Cuda, const RmsNormForward<Bf16>&);

template <class T>
void run(Cuda, const RmsNormBackward<T>& a) {
  constexpr int N = kPack<T>;
  const bool fit =
      row_packs(a.x, N) && row_packs(a.dy, N) && row_packs(a.dx, N) && row_packs(a.gain, N);
  const GroupSums<Wide<T>> dgain(a.dgain, a.partials, a.x.cols, a.group, a.gain_per_column);
  with_team<T, 1>(a.group, fit, [&]<class Team>(std::type_identity<Team>) {
    const RowWalk walk = row_walk<Team>(a.x.rows, a.x.cols / a.group, a.group, dgain.over_rows());
    launch("the gradient of rms_norm",
           walk.grid,
           Team::kThreads,
           0,
           backward_kernel<T, Team>,
           a,
           walk,
           dgain.to);
  });
  dgain.finish(a.x.rows, a.dgain_into);
}
template void run(Cuda, const RmsNormBackward<float>&);
template void run(Cuda, const RmsNormBackward<Bf16>&);

}  // namespace norma::kernels
