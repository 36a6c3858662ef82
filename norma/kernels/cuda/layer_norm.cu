#include "norma/kernels/cuda/norm_centre.cuh"
#include "norma/kernels/cuda/norm_gain.cuh"
#include "norma/kernels/cuda/row_team.cuh"
#include "norma/kernels/layer_norm.h"

namespace norma::kernels {

namespace {

// Rows of bf16 leave registers for more blocks, whose loads hide behind the sums of others.
template <class T, class Team>
__global__ void __launch_bounds__(Team::kThreads,
                                  std::is_same_v<T, Bf16>&& Team::kThreads == 256 ? 4 : 2)
    forward_kernel(LayerNormForward<T> a, RowWalk walk) {
  using C = Math<T>;
  constexpr int N = Team::N;
  Team team(walk);
  walk_rows(team, walk, [&](Index r, Index g) {
    const Index at = g * a.group;
    const Index vector = r * walk.groups + g;
    Held<Team, const T> x(team, a.x.row(r) + at);
    const Spread<C> s = spread<C>(team, x);
    const C rstd = 1 / sqrt(s.variance + static_cast<C>(a.eps));
    if (team.first()) {
      write_mean(s, a.mean[vector], a.shift[vector]);
      write(a.rstd[vector], rstd);
    }
    team.each([&](int p, int c) {
      const Index place = a.gain_per_column ? at + c : c;
      C v[N];
      C gain[N];
      C bias[N];
      x.get(p, c, v);
      read_gain(a.gain, place, a.gain_offset, gain);
      read_bias(a.bias, place, bias);
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] = ((v[i] - s.mean) - s.shift) * rstd * gain[i] + bias[i];
      put_row(a.y.row(r) + at + c, v, Into::set);
    });
  });
}

template <class T, class Team>
__global__ void __launch_bounds__(Team::kThreads, 2) backward_kernel(LayerNormBackward<T> a,
                                                                     RowWalk walk,
                                                                     SumsOf<Wide<T>> gain_sums,
                                                                     SumsOf<Wide<T>> bias_sums) {
  using C = Math<T>;
  constexpr int N = Team::N;
  Team team(walk);
  const SumsOf<Wide<T>> to[2] = {gain_sums, bias_sums};
  ColumnSums<2, Team, C, Wide<T>> over_rows(team, walk, to);
  struct Loaded {
    Held<Team, const T> x;
    Held<Team, const T> dy;
    C mean;
    C shift;
    C rstd;
  };
  const auto load = [&](Index r, Index g) {
    const Index at = g * a.group;
    const Index vector = r * walk.groups + g;
    return Loaded{{team, a.x.row(r) + at},
                  {team, a.dy.row(r) + at},
                  read<C>(a.mean[vector]),
                  read<C>(a.shift[vector]),
                  read<C>(a.rstd[vector])};
  };
  walk_ahead(team, walk, load, [&](Index r, Index g, const Loaded& held) {
    const auto& [x, dy, mean, shift, rstd] = held;
    const Index at = g * a.group;
    Slot<Team, T> dx(team, a.dx, r, at, a.dx_into);
    C sums[2] = {};  // Σ dy·gain, Σ dy·gain·x̂
    team.each([&](int p, int c) {
      C v[N];
      C d[N];
      C gain[N];
      x.get(p, c, v);
      dy.get(p, c, d);
      read_gain(a.gain, a.gain_per_column ? at + c : c, a.gain_offset, gain);
      over_rows.add(1, p, c, d);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        sums[0] += d[i] * gain[i];
        d[i] *= ((v[i] - mean) - shift) * rstd;
        sums[1] += d[i] * gain[i];
      }
      over_rows.add(0, p, c, d);
    });
    if (!a.dx) return;
    team.sum(sums);
    const C along = sums[0] / static_cast<C>(a.group);
    const C dot = sums[1] / static_cast<C>(a.group);
    team.each([&](int p, int c) {
      C v[N];
      C d[N];
      C gain[N];
      x.get(p, c, v);
      dy.get(p, c, d);
      read_gain(a.gain, a.gain_per_column ? at + c : c, a.gain_offset, gain);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const C xhat = ((v[i] - mean) - shift) * rstd;
        v[i] = rstd * (d[i] * gain[i] - along - xhat * dot);
      }
      dx.put(p, c, v);
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
  with_team<T>(a.group, fit, [&]<class Team>(std::type_identity<Team>) {
    const RowWalk walk = row_walk<Team>(a.x.rows, a.x.cols / a.group, a.group);
    launch("layer_norm", walk.grid, Team::kThreads, 0, forward_kernel<T, Team>, a, walk);
  });
}
template void run(Cuda, const LayerNormForward<float>&);
template void run(Cuda, const LayerNormForward<Bf16>&);

template <class T>
void run(Cuda, const LayerNormBackward<T>& a) {
  constexpr int N = kPack<T>;
  const bool fit =
      row_packs(a.x, N) && row_packs(a.dy, N) && row_packs(a.dx, N) && row_packs(a.gain, N);
  const GroupSums<Wide<T>> dgain(a.dgain, a.gain_partials, a.x.cols, a.group, a.gain_per_column);
  const GroupSums<Wide<T>> dbias(a.dbias, a.bias_partials, a.x.cols, a.group, a.gain_per_column);
  with_team<T, 1>(a.group, fit, [&]<class Team>(std::type_identity<Team>) {
    const RowWalk walk = row_walk<Team>(a.x.rows,
                                        a.x.cols / a.group,
                                        a.group,
                                        a.dgain != nullptr ? dgain.over_rows() : dbias.over_rows());
    launch("the gradient of layer_norm",
           walk.grid,
           Team::kThreads,
           0,
           backward_kernel<T, Team>,
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
