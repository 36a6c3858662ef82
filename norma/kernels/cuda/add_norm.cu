#include "norma/kernels/add_norm.h"
#include "norma/kernels/cuda/norm_centre.cuh"
#include "norma/kernels/cuda/norm_gain.cuh"
#include "norma/kernels/cuda/row_norm_gradient.h"
#include "norma/kernels/cuda/row_team.cuh"

namespace norma::kernels {

namespace {

// The sum may lie where x or b does: a row is stored by the team that has read it, and what others
// read in place of a missing row is never used.
template <class T, class Team, bool kBranch>
__global__ void __launch_bounds__(Team::kThreads, kRowBlocks<T, Team, 768>)
    forward_kernel(AddNormForward<T> a, RowWalk walk) {
  using C = Math<T>;
  constexpr int N = Team::N;
  constexpr int kRows = Team::kRows;
  Team team(walk);
  const C weight = 1 / static_cast<C>(walk.width);
  const C offset = static_cast<C>(a.gain_offset);
  walk_batches(team, walk, [&](const RowBatch<kRows>& rows, Index) {
    // The norm is that of the sum as stored, which is what the gradient sees.
    Held<Team, T> sum[kRows];
    if (a.x) {
      Held<Team, const T> x[kRows];
      Held<Team, const T> b[kRows];
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        sum[k] = Held<Team, T>(a.sum.row(rows.row(k)));
        x[k] = {team, a.x.row(rows.row(k))};
        b[k] = {team, a.b.row(rows.row(k))};
      }
      C branch_rstd[kRows];
      if constexpr (kBranch) {
        squares(team, b, branch_rstd);
#pragma unroll
        for (int k = 0; k < kRows; ++k) {
          branch_rstd[k] = rms_rstd(branch_rstd[k], weight, a.branch.eps);
          if (rows.on[k] && team.first()) write(a.branch.rstd[rows.row(k)], branch_rstd[k]);
        }
      }
      team.each([&](int p, int c) {
        C gain[N];
        if constexpr (kBranch) {
          read_gain(a.branch.gain, c, static_cast<C>(a.branch.gain_offset), gain);
        }
#pragma unroll
        for (int k = 0; k < kRows; ++k) {
          C v[N];
          C w[N];
          x[k].get(p, c, v);
          b[k].get(p, c, w);
#pragma unroll
          for (int i = 0; i < N; ++i) {
            if constexpr (kBranch) w[i] *= branch_rstd[k] * gain[i];
            v[i] = static_cast<C>(a.scale) * v[i] + w[i];
          }
          sum[k].hold(p, v);
          if (rows.on[k]) sum[k].store(p, c);
        }
      });
    } else {
#pragma unroll
      for (int k = 0; k < kRows; ++k) sum[k] = {team, a.sum.row(rows.row(k))};
    }
    if (kBranch && !a.y) return;
    C mean[kRows] = {};
    C rstd[kRows];
    if (a.mean != nullptr) {
      Spread<C> s[kRows];
      spread(team, sum, s);
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        const Index r = rows.row(k);
        mean[k] = s[k].mean + s[k].shift;
        rstd[k] = inverse_root(s[k].variance + static_cast<C>(a.eps));
        if (rows.on[k] && team.first()) write_mean(s[k], a.mean[r], a.shift[r]);
      }
    } else {
      squares(team, sum, rstd);
#pragma unroll
      for (int k = 0; k < kRows; ++k) rstd[k] = rms_rstd(rstd[k], weight, a.eps);
    }
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      if (rows.on[k] && team.first()) write(a.rstd[rows.row(k)], rstd[k]);
    }
    team.each([&](int p, int c) {
      C gain[N];
      C bias[N];
      read_gain(a.gain, c, offset, gain);
      read_bias(a.bias, c, bias);
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        C v[N];
        sum[k].get(p, c, v);
#pragma unroll
        for (int i = 0; i < N; ++i) v[i] = normed(v[i], mean[k], rstd[k], gain[i], bias[i]);
        if (rows.on[k]) put_row(a.y.row(rows.row(k)) + c, v, Into::set);
      }
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
  constexpr int kRows = Team::kRows;
  Team team(walk);
  const SumsOf<Wide<T>> to[2] = {gain_sums, bias_sums};
  ColumnSums<2, Team, C, Wide<T>> over_rows(team, walk, to);
  const C weight = 1 / static_cast<C>(walk.width);
  const C offset = static_cast<C>(a.gain_offset);
  const bool centred = a.mean != nullptr;
  walk_batches(team, walk, [&](const RowBatch<kRows>& rows, Index) {
    Held<Team, const T> sum[kRows];
    Held<Team, const T> dy[kRows];
    Held<Team, const T> dsum[kRows];
    C mean[kRows];
    C rstd[kRows];
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      sum[k] = {team, a.sum.row(rows.row(k))};
      dy[k] = {team, a.dy.row(rows.row(k))};
      rstd[k] = read<C>(a.rstd[rows.row(k)]);
    }
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      const Index r = rows.row(k);
      mean[k] = centred ? read<C>(a.mean[r]) + read<C>(a.shift[r]) : C{0};
      if (a.dsum) {
        dsum[k] = {team, a.dsum.row(r)};
      } else {
        dsum[k].clear();
      }
    }
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      if (!rows.on[k]) dy[k].clear();
    }
    C sums[kRows][2] = {};  // Σ dy·gain, Σ dy·gain·(x − mean)
    team.each([&](int p, int c) {
      C gain[N];
      read_gain(a.gain, c, offset, gain);
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        C v[N];
        C d[N];
        sum[k].get(p, c, v);
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
    if (!a.dx && !a.db) return;
    team.sum(sums);
    C along[kRows];
    C bend[kRows];  // rstd·x̂·⟨dy·gain, x̂⟩ is bend·(x − mean)
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      along[k] = centred ? sums[k][0] * weight : C{0};
      bend[k] = rstd[k] * (rstd[k] * sums[k][1] * weight);
      sum[k].look_again();
      dy[k].look_again();
    }
    team.each([&](int p, int c) {
      C gain[N];
      C v[kRows][N];
      read_gain(a.gain, c, offset, gain);
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        C d[N];
        C more[N];
        sum[k].get(p, c, v[k]);
        dy[k].get(p, c, d);
        dsum[k].get_or_zero(p, c, more);
#pragma unroll
        for (int i = 0; i < N; ++i) {
          v[k][i] = plus_norm_gradient(
              more[i], rstd[k], d[i], gain[i], along[k], v[k][i] - mean[k], bend[k]);
        }
      }
      if (a.dx) {  // before db, which may be the same rows, to be added to
        C scaled[kRows][N];
#pragma unroll
        for (int k = 0; k < kRows; ++k) {
#pragma unroll
          for (int i = 0; i < N; ++i) scaled[k][i] = static_cast<C>(a.scale) * v[k][i];
        }
        put_rows(a.dx, rows, c, scaled, a.dx_into);
      }
      if (a.db) put_rows(a.db, rows, c, v, a.db_into);
    });
  });
  over_rows.finish(team);
}

template <bool kBranch, class T>
void start(const AddNormForward<T>& a) {
  constexpr int N = kPack<T>;
  const bool fit = row_packs(a.x, N) && row_packs(a.b, N) && row_packs(a.sum, N) &&
                   row_packs(a.y, N) && row_packs(a.gain, N) && row_packs(a.bias, N) &&
                   row_packs(a.branch.gain, N);
  with_team<T, 4, kBranch ? 4 : 6>(a.sum.cols, fit, [&]<class Team>(std::type_identity<Team>) {
    const RowWalk walk = row_walk<Team>(a.sum.rows, 1, a.sum.cols);
    launch("add_norm", walk.grid, Team::kThreads, 0, forward_kernel<T, Team, kBranch>, a, walk);
  });
}

}  // namespace

template <class T>
void run(Cuda, const AddNormForward<T>& a) {
  // The kernel that made a sum also makes its norm again: the same bits.
  if (a.branch.rstd != nullptr) {
    start<true>(a);
  } else {
    start<false>(a);
  }
}
template void run(Cuda, const AddNormForward<float>&);
template void run(Cuda, const AddNormForward<Bf16>&);

template <class T>
void run(Cuda, const AddNormBackward<T>& a) {
  constexpr int N = kPack<T>;
  if (run_quick(a)) return;
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
  if (a.branch.x) run(Cuda{}, a.branch);
}
template void run(Cuda, const AddNormBackward<float>&);
template void run(Cuda, const AddNormBackward<Bf16>&);

}  // namespace norma::kernels
