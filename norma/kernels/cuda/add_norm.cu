#include "norma/kernels/add_norm.h"
#include "norma/kernels/cuda/norm_centre.cuh"
#include "norma/kernels/cuda/norm_gain.cuh"
#include "norma/kernels/cuda/row_team.cuh"

namespace norma::kernels {

namespace {

template <class T, class Team>
__global__ void __launch_bounds__(Team::kThreads, 2)
    forward_kernel(AddNormForward<T> a, RowWalk walk) {
  using C = Math<T>;
  constexpr int N = Team::N;
  Team team(walk);
  walk_rows(team, walk, [&](Index r, Index) {
    // The norm is that of the sum as stored, which is what the gradient sees.
    Held<Team, T> sum(a.sum.row(r));
    if (a.x) {
      Held<Team, const T> x(team, a.x.row(r));
      Held<Team, const T> b(team, a.b.row(r));
      team.each([&](int p, int c) {
        C v[N];
        C w[N];
        x.get(p, c, v);
        b.get(p, c, w);
#pragma unroll
        for (int i = 0; i < N; ++i) v[i] = static_cast<C>(a.scale) * v[i] + w[i];
        sum.keep(p, c, v);
      });
    } else {
      sum = Held<Team, T>(team, a.sum.row(r));
    }
    C squares[1] = {};
    team.each([&](int p, int c) {
      C v[N];
      sum.get(p, c, v);
#pragma unroll
      for (int i = 0; i < N; ++i) squares[0] += v[i] * v[i];
    });
    Spread<C> s{};
    if (a.mean != nullptr) {
      s = spread<C>(team, sum);
    } else {
      team.sum(squares);
      s.variance = squares[0] / static_cast<C>(walk.width);
    }
    const C rstd = 1 / sqrt(s.variance + static_cast<C>(a.eps));
    if (team.first()) {
      if (a.mean != nullptr) write_mean(s, a.mean[r], a.shift[r]);
      write(a.rstd[r], rstd);
    }
    team.each([&](int p, int c) {
      C v[N];
      C gain[N];
      C bias[N];
      sum.get(p, c, v);
      read_gain(a.gain, c, a.gain_offset, gain);
      read_bias(a.bias, c, bias);
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] = ((v[i] - s.mean) - s.shift) * rstd * gain[i] + bias[i];
      put_row(a.y.row(r) + c, v, Into::set);
    });
  });
}

template <class T, class Team>
__global__ void __launch_bounds__(Team::kThreads, 2) backward_kernel(AddNormBackward<T> a,
                                                                     RowWalk walk,
                                                                     SumsOf<Wide<T>> gain_sums,
                                                                     SumsOf<Wide<T>> bias_sums) {
  using C = Math<T>;
  constexpr int N = Team::N;
  Team team(walk);
  const SumsOf<Wide<T>> to[2] = {gain_sums, bias_sums};
  ColumnSums<2, Team, C, Wide<T>> over_rows(team, walk, to);
  walk_rows(team, walk, [&](Index r, Index) {
    Held<Team, const T> sum(team, a.sum.row(r));
    Held<Team, const T> dy(team, a.dy.row(r));
    Held<Team, const T> dsum(team, a.dsum ? a.dsum.row(r) : nullptr);
    const bool centred = a.mean != nullptr;
    const C mean = centred ? read<C>(a.mean[r]) : C{0};
    const C shift = centred ? read<C>(a.shift[r]) : C{0};
    const C rstd = read<C>(a.rstd[r]);
    C sums[2] = {};  // Σ dy·gain, Σ dy·gain·x̂
    team.each([&](int p, int c) {
      C v[N];
      C d[N];
      C gain[N];
      sum.get(p, c, v);
      dy.get(p, c, d);
      read_gain(a.gain, c, a.gain_offset, gain);
      over_rows.add(1, p, c, d);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        sums[0] += d[i] * gain[i];
        d[i] *= ((v[i] - mean) - shift) * rstd;
        sums[1] += d[i] * gain[i];
      }
      over_rows.add(0, p, c, d);
    });
    if (!a.dx && !a.db) return;
    team.sum(sums);
    const C along = centred ? sums[0] / static_cast<C>(walk.width) : C{0};
    const C dot = sums[1] / static_cast<C>(walk.width);
    team.each([&](int p, int c) {
      C v[N];
      C d[N];
      C gain[N];
      sum.get(p, c, v);
      dy.get(p, c, d);
      read_gain(a.gain, c, a.gain_offset, gain);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const C xhat = ((v[i] - mean) - shift) * rstd;
        v[i] = rstd * (d[i] * gain[i] - along - xhat * dot);
      }
      if (dsum) {
        dsum.get(p, c, d);
#pragma unroll
        for (int i = 0; i < N; ++i) v[i] += d[i];
      }
      if (a.dx) {  // before db, which may be the same rows, to be added to
#pragma unroll
        for (int i = 0; i < N; ++i) d[i] = static_cast<C>(a.scale) * v[i];
        put_row(a.dx.row(r) + c, d, a.dx_into);
      }
      if (a.db) put_row(a.db.row(r) + c, v, a.db_into);
    });
  });
  over_rows.finish(team);
}

}  // namespace

template <class T>
void run(Cuda, const AddNormForward<T>& a) {
  constexpr int N = kPack<T>;
  const bool fit = row_packs(a.x, N) && row_packs(a.b, N) && row_packs(a.sum, N) &&
                   row_packs(a.y, N) && row_packs(a.gain, N) && row_packs(a.bias, N);
  with_team<T>(a.sum.cols, fit, [&]<class Team>(std::type_identity<Team>) {
    const RowWalk walk = row_walk<Team>(a.sum.rows, 1, a.sum.cols);
    launch("add_norm", walk.grid, Team::kThreads, 0, forward_kernel<T, Team>, a, walk);
  });
}
template void run(Cuda, const AddNormForward<float>&);
template void run(Cuda, const AddNormForward<Bf16>&);

template <class T>
void run(Cuda, const AddNormBackward<T>& a) {
  constexpr int N = kPack<T>;
  const Index cols = a.sum.cols;
  const bool fit = row_packs(a.sum, N) && row_packs(a.dsum, N) && row_packs(a.dy, N) &&
                   row_packs(a.dx, N) && row_packs(a.db, N) && row_packs(a.gain, N);
  const GroupSums<Wide<T>> dgain(a.dgain, a.gain_partials, cols, cols, false);
  const GroupSums<Wide<T>> dbias(a.dbias, a.bias_partials, cols, cols, false);
  with_team<T, 3>(cols, fit, [&]<class Team>(std::type_identity<Team>) {
    const RowWalk walk = row_walk<Team>(
        a.sum.rows, 1, cols, a.dgain != nullptr ? dgain.over_rows() : dbias.over_rows());
    launch("the gradient of add_norm",
           walk.grid,
           Team::kThreads,
           0,
           backward_kernel<T, Team>,
           a,
           walk,
           dgain.to,
           dbias.to);
  });
  dgain.finish(a.sum.rows, a.dgain_into);
  dbias.finish(a.sum.rows, a.dbias_into);
}
template void run(Cuda, const AddNormBackward<float>&);
template void run(Cuda, const AddNormBackward<Bf16>&);

}  // namespace norma::kernels
