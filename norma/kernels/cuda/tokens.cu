#include <algorithm>

#include "norma/kernels/cuda/pack.cuh"
#include "norma/kernels/tokens.h"

namespace norma::kernels {

namespace {

/// Blocks for rows of `cols` columns in packs of n: one or more warps side by side for a row, and
/// as many rows as make up a block.
struct RowGrid {
  RowGrid(Index rows, Index cols, int n) {
    const Index wide = (cols / n + 31) / 32 * 32;
    const auto across = static_cast<unsigned>(std::clamp<Index>(wide, 32, kThreads));
    threads = dim3(across, kThreads / across, 1);
    blocks = dim3(static_cast<unsigned>((rows + threads.y - 1) / threads.y), 1, 1);
  }
  static constexpr Index kThreads = 256;
  dim3 blocks;
  dim3 threads;
};

/// f(r, c) for the first of N columns, for every row.
template <int N, class F>
__device__ void each_pack(Index rows, Index cols, F&& f) {
  const Index r = static_cast<Index>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (r >= rows) return;
  for (Index c = static_cast<Index>(threadIdx.x) * N; c < cols; c += blockDim.x * N) f(r, c);
}

template <class T, int N>
__global__ void prepend_kernel(PrependForward<T> a) {
  using C = Math<T>;
  each_pack<N>(a.y.rows, a.y.cols, [&](Index r, Index c) {
    const Index sequence = r / (a.tokens + 1);
    const Index t = r % (a.tokens + 1);
    C values[N];
    if (t == 0) {
      read_pack(a.token + c, values);
    } else {
      read_pack(a.x.row(sequence * a.tokens + t - 1) + c, values);
    }
    write_pack(a.y.row(r) + c, values);
  });
}

template <class T, int N>
__global__ void prepend_backward_kernel(PrependBackward<T> a) {
  using C = Math<T>;
  each_pack<N>(a.dx.rows, a.dx.cols, [&](Index r, Index c) {
    C values[N];
    read_pack(a.dy.row(r / a.tokens * (a.tokens + 1) + 1 + r % a.tokens) + c, values);
    put_pack(a.dx.row(r) + c, values, a.dx_into);
  });
}

constexpr int kTokenWarps = 32;

/// A warp takes every 32nd sequence, 32 columns at a time; the warps are added in order.
template <class T>
__global__ void token_kernel(PrependBackward<T> a) {
  using C = Math<T>;
  __shared__ C sums[kTokenWarps][32];
  const Index c = static_cast<Index>(blockIdx.x) * 32 + threadIdx.x;
  const Index sequences = a.dy.rows / (a.tokens + 1);
  C sum = 0;
  if (c < a.dy.cols) {
#pragma unroll 4
    for (Index s = threadIdx.y; s < sequences; s += kTokenWarps) {
      sum += read<C>(a.dy(s * (a.tokens + 1), c));
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= a.dy.cols) return;
  C total = 0;
  for (int w = 0; w < kTokenWarps; ++w) total += sums[w][threadIdx.x];
  put(a.dtoken[c], total, a.dtoken_into);
}

template <class T, int N>
__global__ void add_positions_kernel(AddPositions<T> a) {
  using C = Math<T>;
  each_pack<N>(a.x.rows, a.x.cols, [&](Index r, Index c) {
    C values[N];
    C position[N];
    read_pack(a.x.row(r) + c, values);
    read_pack(a.positions + r % a.tokens * a.x.cols + c, position);
#pragma unroll
    for (int k = 0; k < N; ++k) values[k] += position[k];
    write_pack(a.y.row(r) + c, values);
  });
}

/// Σ over `count` rows, `step` rows apart, in order.
template <int N, class C, class T>
__device__ void sum_rows(
    const Rows<const T>& x, Index first, Index step, Index count, Index c, C (&sum)[N]) {
#pragma unroll 8
  for (Index i = 0; i < count; ++i) {
    C values[N];
    read_pack(x.row(first + i * step) + c, values);
#pragma unroll
    for (int k = 0; k < N; ++k) sum[k] += values[k];
  }
}

template <class T, int N>
__global__ void position_sum_kernel(PositionSum<T> a) {
  using C = Math<T>;
  each_pack<N>(a.table_rows, a.dy.cols, [&](Index r, Index c) {
    const Index t = r - a.first;
    C sum[N] = {};
    if (t >= 0 && t < a.tokens) {
      sum_rows(a.dy, t, a.tokens, a.dy.rows / a.tokens, c, sum);
    } else if (a.into == Into::add) {
      return;
    }
#pragma unroll
    for (int k = 0; k < N; ++k) sum[k] *= static_cast<C>(a.scale);
    put_pack(a.sums + r * a.dy.cols + c, sum, a.into);
  });
}

template <class T, int N>
__global__ void pool_kernel(PoolForward<T> a) {
  using C = Math<T>;
  each_pack<N>(a.y.rows, a.y.cols, [&](Index s, Index c) {
    C sum[N] = {};
    sum_rows(a.x, s * a.tokens + a.begin, 1, a.end - a.begin, c, sum);
#pragma unroll
    for (int k = 0; k < N; ++k) sum[k] *= static_cast<C>(a.factor);
    write_pack(a.y.row(s) + c, sum);
  });
}

template <class T, int N>
__global__ void pool_backward_kernel(PoolBackward<T> a) {
  using C = Math<T>;
  each_pack<N>(a.dx.rows, a.dx.cols, [&](Index r, Index c) {
    const Index t = r % a.tokens;
    C values[N] = {};
    if (t >= a.begin && t < a.end) {
      read_pack(a.dy.row(r / a.tokens) + c, values);
#pragma unroll
      for (int k = 0; k < N; ++k) values[k] *= static_cast<C>(a.factor);
    } else if (a.dx_into == Into::add) {
      return;
    }
    put_pack(a.dx.row(r) + c, values, a.dx_into);
  });
}

}  // namespace

template <class T>
void run(Cuda, const PrependForward<T>& a) {
  const bool all =
      packs(a.x, kPack<T>) && packs(a.y, kPack<T>) && packs(a.token, a.y.cols, kPack<T>);
  with_pack<T>(all, [&](auto n) {
    const RowGrid grid(a.y.rows, a.y.cols, n);
    launch("prepending a token", grid.blocks, grid.threads, 0, prepend_kernel<T, n>, a);
  });
}

template <class T>
void run(Cuda, const PrependBackward<T>& a) {
  if (a.dx) {
    with_pack<T>(packs(a.dy, kPack<T>) && packs(a.dx, kPack<T>), [&](auto n) {
      const RowGrid grid(a.dx.rows, a.dx.cols, n);
      launch("the gradient behind a token",
             grid.blocks,
             grid.threads,
             0,
             prepend_backward_kernel<T, n>,
             a);
    });
  }
  if (a.dtoken == nullptr) return;
  launch("the gradient of a token",
         static_cast<unsigned>((a.dy.cols + 31) / 32),
         dim3(32, kTokenWarps, 1),
         0,
         token_kernel<T>,
         a);
}

template <class T>
void run(Cuda, const AddPositions<T>& a) {
  const bool all =
      packs(a.x, kPack<T>) && packs(a.y, kPack<T>) && packs(a.positions, a.x.cols, kPack<T>);
  with_pack<T>(all, [&](auto n) {
    const RowGrid grid(a.x.rows, a.x.cols, n);
    launch("adding positions", grid.blocks, grid.threads, 0, add_positions_kernel<T, n>, a);
  });
}

template <class T>
void run(Cuda, const PositionSum<T>& a) {
  with_pack<T>(packs(a.dy, kPack<T>) && packs(a.sums, a.dy.cols, kPack<T>), [&](auto n) {
    const RowGrid grid(a.table_rows, a.dy.cols, n);
    launch("the gradient of positions", grid.blocks, grid.threads, 0, position_sum_kernel<T, n>, a);
  });
}

template <class T>
void run(Cuda, const PoolForward<T>& a) {
  with_pack<T>(packs(a.x, kPack<T>) && packs(a.y, kPack<T>), [&](auto n) {
    const RowGrid grid(a.y.rows, a.y.cols, n);
    launch("pooling tokens", grid.blocks, grid.threads, 0, pool_kernel<T, n>, a);
  });
}

template <class T>
void run(Cuda, const PoolBackward<T>& a) {
  with_pack<T>(packs(a.dy, kPack<T>) && packs(a.dx, kPack<T>), [&](auto n) {
    const RowGrid grid(a.dx.rows, a.dx.cols, n);
    launch("the gradient of pooling", grid.blocks, grid.threads, 0, pool_backward_kernel<T, n>, a);
  });
}

template void run(Cuda, const PrependForward<float>&);
template void run(Cuda, const PrependForward<Bf16>&);
template void run(Cuda, const PrependBackward<float>&);
template void run(Cuda, const PrependBackward<Bf16>&);
template void run(Cuda, const AddPositions<float>&);
template void run(Cuda, const AddPositions<Bf16>&);
template void run(Cuda, const PositionSum<float>&);
template void run(Cuda, const PositionSum<Bf16>&);
template void run(Cuda, const PoolForward<float>&);
template void run(Cuda, const PoolForward<Bf16>&);
template void run(Cuda, const PoolBackward<float>&);
template void run(Cuda, const PoolBackward<Bf16>&);

}  // namespace norma::kernels
