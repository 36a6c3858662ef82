// Work on every element of a matrix. A thread keeps its N columns, and whatever numbers belong to
// them, and goes down the rows; blocks have the shape of column_block().
#pragma once

#include <algorithm>

#include "norma/kernels/cuda/column_sums.cuh"

namespace norma::kernels {

/// Packs of several tensors that are loaded together.
template <class T, int N, int kTensors>
struct Packs {
  Pack<T, N> of[kTensors];
};

/// The packs at row r, from column c on. A tensor that is not there gives zeros.
template <int N, class T, class... More>
__device__ inline auto load_packs(Index r,
                                  Index c,
                                  const Rows<T>& first,
                                  const Rows<More>&... more) {
  using Value = std::remove_const_t<T>;
  const auto load = [&](const auto& rows) {
    return rows ? load_pack<N>(rows.row(r) + c) : Pack<Value, N>{};
  };
  return Packs<Value, N, 1 + sizeof...(More)>{{load(first), load(more)...}};
}

/// to[i] = mult · gains[c + i], with gains 1 where absent.
template <int N, class C, class P>
__device__ inline void read_factors(const P* gains, Index c, double mult, C (&to)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    to[i] = static_cast<C>(mult) * (gains == nullptr ? C{1} : read<C>(gains[c + i]));
  }
}

/// use(r, load(r)) for r = first, first + step, … below end. Two rows are loaded before the first
/// is used: the compiler would not do so, since what is written could be what is read next.
template <class Load, class Use>
__device__ inline void walk_rows(Index first, Index end, Index step, Load&& load, Use&& use) {
  for (Index r = first; r < end; r += 2 * step) {
    const bool both = r + step < end;
    const auto here = load(r);
    const auto next = load(both ? r + step : r);
    use(r, here);
    if (both) use(r + step, next);
  }
}
/// The same for all rows of a matrix, spread over the grid.
template <class Load, class Use>
__device__ inline void walk_all_rows(Index rows, Load&& load, Use&& use) {
  const Index first = static_cast<Index>(blockIdx.y) * kColumnWarps + threadIdx.y;
  walk_rows(first, rows, static_cast<Index>(gridDim.y) * kColumnWarps, load, use);
}
/// The same for the rows of the block's chunk.
template <class Load, class Use>
__device__ inline void walk_chunk(Index rows, Index chunk_rows, Load&& load, Use&& use) {
  const Index begin = static_cast<Index>(blockIdx.y) * chunk_rows;
  const Index end = begin + chunk_rows < rows ? begin + chunk_rows : rows;
  walk_rows(begin + threadIdx.y, end, kColumnWarps, load, use);
}

/// The grid for walk_all_rows. Two waves of full multiprocessors, so that what a thread prepares
/// for its columns serves many rows.
inline dim3 element_grid(Index rows, Index cols, int n) {
  constexpr Index kBlocksPerMultiprocessor = 16;
  const Index wide = static_cast<Index>(kColumnLanes) * n;
  const Index across = (cols + wide - 1) / wide;
  const Index down = (rows + 2 * kColumnWarps - 1) / (2 * kColumnWarps);
  const Index enough = kBlocksPerMultiprocessor * device::multiprocessors();
  const Index most = std::clamp<Index>(enough / std::max<Index>(1, across), 1, 65535);
  return {static_cast<unsigned>(across), static_cast<unsigned>(std::min(down, most)), 1};
}

}  // namespace norma::kernels
