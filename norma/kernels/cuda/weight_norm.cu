#include "norma/kernels/cuda/row_team.cuh"
#include "norma/kernels/weight_norm.h"

namespace norma::kernels {

namespace {

/// v is divided by its norm, not multiplied with the inverse: v/|v| of a single element is then
/// exactly ±1, and its gradient exactly 0. Dividing zeros by 1 leaves them zeros.
template <class C>
__device__ C divisor(C norm) {
  return norm == 0 ? C{1} : norm;
}
/// g/|v|, and 0 for a vector of zeros, so that its gradient is 0.
template <class C>
__device__ C outer_factor(C g, C norm) {
  return norm == 0 ? C{0} : g / norm;
}

template <class T, class Team>
__global__ void __launch_bounds__(Team::kThreads, 2)
    forward_rows_kernel(WeightNormForward<T> a, RowWalk walk) {
  using C = Math<T>;
  constexpr int N = Team::N;
  Team team(walk);
  walk_rows(team, walk, [&](Index r, Index) {
    Held<Team, const T> v(team, a.v.row(r));
    C sums[1] = {};
    team.each([&](int p, int c) {
      C values[N];
      v.get(p, c, values);
#pragma unroll
      for (int i = 0; i < N; ++i) sums[0] += values[i] * values[i];
    });
    team.sum(sums);
    const C norm = sqrt(sums[0]);
    const C by = divisor(norm);
    if (team.first()) write(a.norm[r], norm);
    const C g = a.g == nullptr ? C{1} : read<C>(a.g[r]);
    team.each([&](int p, int c) {
      C values[N];
      v.get(p, c, values);
#pragma unroll
      for (int i = 0; i < N; ++i) values[i] = g * (values[i] / by);
      put_row(a.w.row(r) + c, values, Into::set);
    });
  });
}

template <class T, class Team>
__global__ void __launch_bounds__(Team::kThreads, 2)
    backward_rows_kernel(WeightNormBackward<T> a, RowWalk walk) {
  using C = Math<T>;
  constexpr int N = Team::N;
  Team team(walk);
  walk_rows(team, walk, [&](Index r, Index) {
    Held<Team, const T> v(team, a.v.row(r));
    Held<Team, const Wide<T>> dw(team, a.dw.row(r));
    const C norm = read<C>(a.norm[r]);
    const C by = divisor(norm);
    const C outer = outer_factor(a.g == nullptr ? C{1} : read<C>(a.g[r]), norm);
    C sums[1] = {};  // ⟨v/|v|, dw⟩
    team.each([&](int p, int c) {
      C values[N];
      C d[N];
      v.get(p, c, values);
      dw.get(p, c, d);
#pragma unroll
      for (int i = 0; i < N; ++i) sums[0] += values[i] / by * d[i];
    });
    team.sum(sums);
    if (team.first() && a.dg != nullptr) put(a.dg[r], sums[0], a.dg_into);
    if (!a.dv) return;
    team.each([&](int p, int c) {
      C values[N];
      C d[N];
      v.get(p, c, values);
      dw.get(p, c, d);
#pragma unroll
      for (int i = 0; i < N; ++i) d[i] = outer * (d[i] - values[i] / by * sums[0]);
      put_row(a.dv.row(r) + c, d, a.dv_into);
    });
  });
}

constexpr int kColumns = 32;  // of a block, beside each other
constexpr int kWarps = 32;    // rows of a block at once

/// Σ over a column of term(r), given to all threads of the column; in double, as columns can be
/// long.
template <class F>
__device__ double column_sum(Index rows, bool inside, F&& term) {
  __shared__ double shared[kWarps][kColumns];
  double sum = 0;
  if (inside) {
    for (Index r = threadIdx.y; r < rows; r += kWarps) sum += term(r);
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += shared[w][threadIdx.x];
  return sum;
}

template <class T>
__global__ void __launch_bounds__(kColumns* kWarps) forward_columns_kernel(WeightNormForward<T> a) {
  const Index c = static_cast<Index>(blockIdx.x) * kColumns + threadIdx.x;
  const bool inside = c < a.v.cols;
  const double norm = sqrt(column_sum(a.v.rows, inside, [&](Index r) {
    const auto v = read<double>(a.v(r, c));
    return v * v;
  }));
  if (!inside) return;
  if (threadIdx.y == 0) write(a.norm[c], norm);
  const double g = a.g == nullptr ? 1.0 : read<double>(a.g[c]);
  const double by = divisor(norm);
  for (Index r = threadIdx.y; r < a.v.rows; r += kWarps) {
    write(a.w(r, c), g * (read<double>(a.v(r, c)) / by));
  }
}

template <class T>
__global__ void __launch_bounds__(kColumns* kWarps)
    backward_columns_kernel(WeightNormBackward<T> a) {
  const Index c = static_cast<Index>(blockIdx.x) * kColumns + threadIdx.x;
  const bool inside = c < a.v.cols;
  const double norm = inside ? read<double>(a.norm[c]) : 0.0;
  const double by = divisor(norm);
  const double dot = column_sum(a.v.rows, inside, [&](Index r) {
    return read<double>(a.v(r, c)) / by * read<double>(a.dw(r, c));
  });
  if (!inside) return;
  if (threadIdx.y == 0 && a.dg != nullptr) put(a.dg[c], dot, a.dg_into);
  if (!a.dv) return;
  const double outer = outer_factor(a.g == nullptr ? 1.0 : read<double>(a.g[c]), norm);
  for (Index r = threadIdx.y; r < a.v.rows; r += kWarps) {
    const double along = read<double>(a.v(r, c)) / by * dot;
    put(a.dv(r, c), outer * (read<double>(a.dw(r, c)) - along), a.dv_into);
  }
}

}  // namespace

template <class T>
void run(Cuda, const WeightNormForward<T>& a) {
  constexpr int N = kPack<T>;
  if (a.columns) {
    launch("weight_norm",
           device::blocks_for(a.v.cols, kColumns),
           dim3(kColumns, kWarps),
           0,
           forward_columns_kernel<T>,
           a);
    return;
  }
  with_team<T>(
      a.v.cols, row_packs(a.v, N) && row_packs(a.w, N), [&]<class Team>(std::type_identity<Team>) {
        const RowWalk walk = row_walk<Team>(a.v.rows, 1, a.v.cols);
        launch("weight_norm", walk.grid, Team::kThreads, 0, forward_rows_kernel<T, Team>, a, walk);
      });
}
template void run(Cuda, const WeightNormForward<float>&);
template void run(Cuda, const WeightNormForward<Bf16>&);

template <class T>
void run(Cuda, const WeightNormBackward<T>& a) {
  constexpr int N = kPack<T>;
  constexpr const char* kWhat = "the gradient of weight_norm";
  if (a.columns) {
    launch(kWhat,
           device::blocks_for(a.v.cols, kColumns),
           dim3(kColumns, kWarps),
           0,
           backward_columns_kernel<T>,
           a);
    return;
  }
  const bool fit = row_packs(a.v, N) && row_packs(a.dw, N) && row_packs(a.dv, N);
  with_team<T>(a.v.cols, fit, [&]<class Team>(std::type_identity<Team>) {
    const RowWalk walk = row_walk<Team>(a.v.rows, 1, a.v.cols);
    launch(kWhat, walk.grid, Team::kThreads, 0, backward_rows_kernel<T, Team>, a, walk);
  });
}
template void run(Cuda, const WeightNormBackward<float>&);
template void run(Cuda, const WeightNormBackward<Bf16>&);

}  // namespace norma::kernels
