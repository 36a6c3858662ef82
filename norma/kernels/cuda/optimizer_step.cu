#include <algorithm>

#include "norma/kernels/cuda/element_of.cuh"
#include "norma/kernels/cuda/keep.cuh"
#include "norma/kernels/optimizer_step.h"

namespace norma::kernels {

namespace {

constexpr int kThreads = 256;
// Of a multiprocessor. Many waves, so that the last one, half empty, weighs little; yet enough work
// for a block to repay the numbers it works out first.
constexpr Index kMostBlocks = 64;
constexpr int kRowThreads = 128;
constexpr int kWidth = kPack<float>;

/// Steps lie along z of a grid.
template <class Rule>
using Steps = Together<ElementStep<float, Rule>>;

/// N neighbours from i on: their states are written, their new weights given.
template <int N, class Step, class Element>
__device__ inline void step_pack(const Step& a, const Element& element, Index i, float (&w)[N]) {
  float g[N];
  float first[N] = {};
  float second[N] = {};
  read_pack(a.w + i, w);
  read_pack(a.g + i, g);
  if (a.first != nullptr) read_pack(a.first + i, first);
  if (a.second != nullptr) read_pack(a.second + i, second);
#pragma unroll
  for (int k = 0; k < N; ++k) w[k] = element(w[k], g[k], first[k], second[k]);
  if (a.first != nullptr) write_pack(a.first + i, first);
  if (a.second != nullptr) write_pack(a.second + i, second);
}

template <int N, class Step>
__device__ inline void store_weights(const Step& a, Index i, const float (&w)[N]) {
  write_pack(a.w + i, w);
  if (a.copy != nullptr) write_pack(a.copy + i, w);
}

template <int N, class Rule>
__global__ void flat_kernel(const __grid_constant__ Steps<Rule> all) {
  const ElementStep<float, Rule> a = all.each[blockIdx.z];
  const auto element = element_of(a.rule, a.clip);
  const Index count = a.rows * a.cols;
  const Index step = static_cast<Index>(gridDim.x) * kThreads * N;
  for (Index i = (static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x) * N; i < count;
       i += step) {
    float w[N];
    step_pack(a, element, i, w);
    store_weights(a, i, w);
  }
}

/// Whether a row has no gradient. All threads of the block call it and get the same answer.
__device__ inline bool without_gradient(const float* g, Index cols) {
  int any = 0;
  for (Index c = threadIdx.x; c < cols; c += kRowThreads) any |= g[c] != 0 ? 1 : 0;
  return __syncthreads_or(any) == 0;
}

template <int N>
__device__ inline double squares_of(const float (&w)[N]) {
  double sum = 0;
#pragma unroll
  for (int k = 0; k < N; ++k) sum += static_cast<double>(w[k]) * static_cast<double>(w[k]);
  return sum;
}

/// A row per block. Rows of up to kHeld packs for each thread stay in registers until their length
/// is known; longer ones (kHeld 0) are written and read again, each element by the same thread.
template <int N, int kHeld, class Rule>
__global__ void rows_kernel(const __grid_constant__ Steps<Rule> all) {
  const ElementStep<float, Rule> a = all.each[blockIdx.z];
  const auto element = element_of(a.rule, a.clip);
  const bool keeps = a.keep != Keep::nothing;
  const bool only_long = keeps_short(a.keep);
  const Index mine = static_cast<Index>(threadIdx.x) * N;
  constexpr Index kStride = Index{kRowThreads} * N;
  for (Index r = blockIdx.x; r < a.rows; r += gridDim.x) {
    const Index base = r * a.cols;
    if (a.lazy_rows && without_gradient(a.g + base, a.cols)) continue;
    double squares = 0;
    float factor = 1;
    if constexpr (kHeld > 0) {
      float held[kHeld][N];
#pragma unroll
      for (int p = 0; p < kHeld; ++p) {
        const Index c = mine + p * kStride;
        if (c >= a.cols) continue;
        step_pack(a, element, base + c, held[p]);
        squares += squares_of(held[p]);
      }
      if (keeps) factor = keeping_factor(block_sum<kRowThreads>(squares), only_long);
#pragma unroll
      for (int p = 0; p < kHeld; ++p) {
        const Index c = mine + p * kStride;
        if (c >= a.cols) continue;
#pragma unroll
        for (int k = 0; k < N; ++k) held[p][k] *= factor;
        store_weights(a, base + c, held[p]);
      }
    } else {
      float w[N];
      for (Index c = mine; c < a.cols; c += kStride) {
        step_pack(a, element, base + c, w);
        squares += squares_of(w);
        store_weights(a, base + c, w);
      }
      if (!keeps) continue;
      factor = keeping_factor(block_sum<kRowThreads>(squares), only_long);
      for (Index c = mine; c < a.cols; c += kStride) {
        read_pack(a.w + base + c, w);
#pragma unroll
        for (int k = 0; k < N; ++k) w[k] *= factor;
        store_weights(a, base + c, w);
      }
    }
  }
}

/// The step and the squares of the new weights, column by column.
template <int N, class Rule>
__global__ void columns_kernel(const __grid_constant__ Steps<Rule> all, Index chunk_rows) {
  const ElementStep<float, Rule> a = all.each[blockIdx.z];
  const auto element = element_of(a.rule, a.clip);
  float* const partials[1] = {a.partials};
  walk_columns<1, N, double>(
      a.rows, a.cols, chunk_rows, partials, [&](Index r, Index c, double(&sums)[1][N]) {
        float w[N];
        step_pack(a, element, r * a.cols + c, w);
        write_pack(a.w + r * a.cols + c, w);
#pragma unroll
        for (int k = 0; k < N; ++k) {
          sums[0][k] += static_cast<double>(w[k]) * static_cast<double>(w[k]);
        }
      });
}

constexpr const char* kName = "a step of the optimizer";

template <class Rule>
bool is_flat(const ElementStep<float, Rule>& a) {
  return a.keep == Keep::nothing && !a.lazy_rows;
}
/// Whether packs fit into all that a row is read from and written to.
template <class Rule>
bool in_packs(const ElementStep<float, Rule>& a) {
  const Index length = is_flat(a) ? a.rows * a.cols : a.cols;
  return packs(a.w, length, kWidth) && packs(a.g, length, kWidth) &&
         packs(a.first, length, kWidth) && packs(a.second, length, kWidth) &&
         packs(a.copy, length, kWidth);
}

/// Blocks for so many items of each step. They share what is a good number for one.
template <class Rule>
dim3 grid_of(const Steps<Rule>& all, Index items, int of_a_block) {
  const Index most = kMostBlocks * device::multiprocessors() / all.count;
  return {device::blocks_for(items, of_a_block, most), 1, static_cast<unsigned>(all.count)};
}

template <class Rule>
void step_flat(const Steps<Rule>& all, bool wide) {
  const Index count = all.each[0].rows * all.each[0].cols;
  with_pack<float>(wide, [&](auto n) {
    launch(kName, grid_of(all, count / n, kThreads), kThreads, 0, flat_kernel<n, Rule>, all);
  });
}

template <class Rule>
void step_rows(const Steps<Rule>& all, bool wide) {
  const Index cols = all.each[0].cols;
  const dim3 grid = grid_of(all, all.each[0].rows, 1);
  const auto with = [&](auto kernel) { launch(kName, grid, kRowThreads, 0, kernel, all); };
  constexpr Index kOnce = Index{kRowThreads} * kWidth;
  if (!wide) {
    with(rows_kernel<1, 0, Rule>);
  } else if (cols <= 2 * kOnce) {
    with(rows_kernel<kWidth, 2, Rule>);
  } else if (cols <= 8 * kOnce) {
    with(rows_kernel<kWidth, 8, Rule>);
  } else {
    with(rows_kernel<kWidth, 0, Rule>);
  }
}

template <class Rule>
KeepVectors<float> columns_of(const ElementStep<float, Rule>& a) {
  return {.w = a.w,
          .rows = a.rows,
          .cols = a.cols,
          .keep = a.keep,
          .partials = a.partials,
          .copy = a.copy};
}

template <class Rule>
void step_columns(const Steps<Rule>& all, bool wide) {
  const RowChunks chunks(all.each[0].rows);
  with_pack<float>(wide, [&](auto n) {
    dim3 grid = column_grid(all.each[0].cols, n, chunks);
    grid.z = static_cast<unsigned>(all.count);
    launch(kName, grid, column_block(), 0, columns_kernel<n, Rule>, all, chunks.size);
  });
  Together<KeepVectors<float>> columns{};
  for (int i = 0; i < all.count; ++i) columns.add(columns_of(all.each[i]));
  scale_columns(Cuda{}, columns);
}

/// Whether a row rests is known only when all of it has been seen.
template <class Rule>
void step_lazy_columns(const Steps<Rule>& all, bool wide) {
  Steps<Rule> rows = all;
  for (int i = 0; i < all.count; ++i) rows.each[i].keep = Keep::nothing;
  step_rows(rows, wide);
  for (int i = 0; i < all.count; ++i) run(Cuda{}, columns_of(all.each[i]));
}

}  // namespace

template <class T, class Rule>
void run(Cuda, const Together<ElementStep<T, Rule>>& all) {
  const auto fits = [](const ElementStep<T, Rule>& a) { return in_packs(a); };
  const bool wide = fits(all.each[0]);
  if (std::count_if(all.each, all.each + all.count, fits) != (wide ? all.count : 0)) {
    // Packs need aligned memory and decide the order in which a row is added up, so each step has
    // to choose for itself.
    for (int i = 0; i < all.count; ++i) run(Cuda{}, Steps<Rule>{.each = {all.each[i]}, .count = 1});
    return;
  }
  const ElementStep<T, Rule>& like = all.each[0];
  if (is_flat(like)) {
    step_flat(all, wide);
  } else if (!keeps_columns(like.keep)) {
    step_rows(all, wide);
  } else if (like.lazy_rows) {
    step_lazy_columns(all, wide);
  } else {
    step_columns(all, wide);
  }
}
template void run(Cuda, const Together<ElementStep<float, SgdRule>>&);
template void run(Cuda, const Together<ElementStep<float, AdamRule>>&);
template void run(Cuda, const Together<ElementStep<float, GatedAdamRule>>&);
template void run(Cuda, const Together<ElementStep<float, LionRule>>&);
template void run(Cuda, const Together<ElementStep<float, AdagradRule>>&);
template void run(Cuda, const Together<ElementStep<float, RmspropRule>>&);
template void run(Cuda, const Together<ElementStep<float, SignRule>>&);

}  // namespace norma::kernels
