// The gradient of batch_norm; forward is in batch_norm.cu.
#include "norma/kernels/cuda/batch_norm.cuh"

namespace norma::kernels {

namespace {

/// Σ dy and Σ dy·x̂ of every position over the batch: sums (2, positions, cols).
template <class T, int N>
__global__ void sums_kernel(BatchNormBackward<T> a) {
  using C = Math<T>;
  __shared__ double shared[2][kBatchWarps][kBatchLanes];
  const Index t = blockIdx.x;
  const Index c = (static_cast<Index>(blockIdx.y) * kBatchLanes + threadIdx.x) * N;
  const Index at = a.shape.set_of(t) * a.x.cols + c;
  C sum[N] = {};
  C dot[N] = {};
  if (c < a.x.cols) {
    const Center<C, N> center(a, at);
    C rstd[N];
#pragma unroll
    for (int k = 0; k < N; ++k) rstd[k] = read<C>(a.rstd[at + k]);
    for (Index b = threadIdx.y; b < a.shape.batch; b += kBatchWarps) {
      if (!valid(a, b, t)) continue;
      const Index r = b * a.shape.positions + t;
      C x[N];
      C dy[N];
      read_pack(a.x.row(r) + c, x);
      read_pack(a.dy.row(r) + c, dy);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        sum[k] += dy[k];
        dot[k] += dy[k] * (center.distance(x[k], k) * rstd[k]);
      }
    }
  }
#pragma unroll
  for (int k = 0; k < N; ++k) {
    __syncthreads();
    shared[0][threadIdx.y][threadIdx.x] = static_cast<double>(sum[k]);
    shared[1][threadIdx.y][threadIdx.x] = static_cast<double>(dot[k]);
    __syncthreads();
    if (threadIdx.y > 1 || c >= a.x.cols) continue;
    double all = 0;
    for (int w = 0; w < kBatchWarps; ++w) all += shared[threadIdx.y][w][threadIdx.x];
    a.sums[(threadIdx.y * a.shape.positions + t) * a.x.cols + c + k] = all;
  }
}

/// What one column's dx takes besides its own dy, with d = x − mean:
///   dx = outer·dy − (level + d·along),   outer = gain·rstd
struct Slope {
  double level;
  double along;
};

template <class T>
__device__ double outer(const BatchNormBackward<T>& a, Index at, Index c) {
  const double gain = a.gain == nullptr ? 1 : read<double>(a.gain[c]);
  return gain * read<double>(a.rstd[at]);
}

/// Through the mean and variance of the set `at`, of `count` elements.
template <class T>
__device__ Slope
own_slope(const BatchNormBackward<T>& a, Index at, Index c, double sum, double dot, Index count) {
  if (a.shape.constant || count == 0) return {0, 0};
  const double each = outer(a, at, c) / static_cast<double>(count);
  return {each * sum, each * dot * read<double>(a.rstd[at])};
}

constexpr int kPositionWarps = 32;

/// dgain and dbias; where one set has all positions, its slope too, in the first row of each of the
/// sums: then nobody needs those of the positions any more.
template <class T>
__global__ void total_kernel(BatchNormBackward<T> a) {
  __shared__ double shared[2][kPositionWarps][32];
  const Index cols = a.x.cols;
  const Index c = static_cast<Index>(blockIdx.x) * 32 + threadIdx.x;
  const Index dots = a.shape.positions * cols;
  double sum = 0;
  double dot = 0;
  if (c < cols) {
#pragma unroll 4
    for (Index t = threadIdx.y; t < a.shape.positions; t += kPositionWarps) {
      sum += a.sums[t * cols + c];
      dot += a.sums[dots + t * cols + c];
    }
  }
  shared[0][threadIdx.y][threadIdx.x] = sum;
  shared[1][threadIdx.y][threadIdx.x] = dot;
  __syncthreads();
  if (threadIdx.y != 0 || c >= cols) return;
  sum = 0;
  dot = 0;
  for (int w = 0; w < kPositionWarps; ++w) {
    sum += shared[0][w][threadIdx.x];
    dot += shared[1][w][threadIdx.x];
  }
  if (a.dgain != nullptr) put(a.dgain[c], dot, a.dgain_into);
  if (a.dbias != nullptr) put(a.dbias[c], sum, a.dbias_into);
  if (a.shape.sets > 1) return;
  const Slope slope = own_slope(a, c, c, sum, dot, count_up_to(a, a.shape.positions - 1));
  a.sums[c] = slope.level;
  a.sums[dots + c] = slope.along;
}

template <class T>
__global__ void position_slopes_kernel(BatchNormBackward<T> a) {
  const Index at = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  const Index count = a.shape.positions * a.x.cols;
  if (at >= count) return;
  const Slope slope =
      own_slope(a, at, at % a.x.cols, a.sums[at], a.sums[count + at], count_at(a, at / a.x.cols));
  a.sums[at] = slope.level;
  a.sums[count + at] = slope.along;
}

/// From the last position to the first: every prefix hands its share to all positions before it.
/// The level is kept relative to the mean of the set at hand and moved along as t falls, so that a
/// large common mean never enters.
template <class T>
__global__ void prefix_slopes_kernel(BatchNormBackward<T> a) {
  const Index cols = a.x.cols;
  const Index c = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  const Index dots = a.shape.positions * cols;
  const auto mean = [&](Index t) {
    return read<double>(a.mean[t * cols + c]) + read<double>(a.shift[t * cols + c]);
  };
  Slope slope{0, 0};
  for (Index t = a.shape.positions - 1; t >= 0; --t) {
    const Index at = t * cols + c;
    // level + (x − mean')·along = level + (mean − mean')·along + (x − mean)·along
    if (t + 1 < a.shape.positions) slope.level -= slope.along * (mean(t + 1) - mean(t));
    const Slope own = own_slope(a, at, c, a.sums[at], a.sums[dots + at], count_up_to(a, t));
    slope.level += own.level;
    slope.along += own.along;
    a.sums[at] = slope.level;
    a.sums[dots + at] = slope.along;
  }
}

template <class T, int N>
__global__ void dx_kernel(BatchNormBackward<T> a) {
  using C = Math<T>;
  const Index t = blockIdx.x;
  const Index c = (static_cast<Index>(blockIdx.y) * kBatchLanes + threadIdx.x) * N;
  if (c >= a.x.cols) return;
  const Index at = a.shape.set_of(t) * a.x.cols + c;
  const Index dots = a.shape.positions * a.x.cols;
  const Center<C, N> center(a, at);
  C factor[N];
  C level[N];
  C along[N];
#pragma unroll
  for (int k = 0; k < N; ++k) {
    factor[k] = static_cast<C>(outer(a, at + k, c + k));
    level[k] = static_cast<C>(a.sums[at + k]);
    along[k] = static_cast<C>(a.sums[dots + at + k]);
  }
  for (Index b = threadIdx.y; b < a.shape.batch; b += kBatchWarps) {
    const Index r = b * a.shape.positions + t;
    C values[N] = {};
    if (valid(a, b, t)) {
      C x[N];
      read_pack(a.x.row(r) + c, x);
      read_pack(a.dy.row(r) + c, values);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        values[k] = (factor[k] * values[k] - level[k]) - center.distance(x[k], k) * along[k];
      }
    }
    put_pack(a.dx.row(r) + c, values, a.dx_into);
  }
}

}  // namespace

template <class T>
void run(Cuda, const BatchNormBackward<T>& a) {
  constexpr int kThreads = 128;
  const BatchNormShape& s = a.shape;
  const Index cols = a.x.cols;
  const auto blocks = [](Index count) {
    return static_cast<unsigned>((count + kThreads - 1) / kThreads);
  };
  const bool all =
      packs(a.x, kPack<T>) && packs(a.dy, kPack<T>) && (!a.dx || packs(a.dx, kPack<T>));
  with_pack<T>(all, [&](auto n) {
    launch("sums of positions",
           position_grid(s.positions, cols, n),
           position_block(),
           0,
           sums_kernel<T, n>,
           a);
  });
  launch("sums of a batch",
         static_cast<unsigned>((cols + 31) / 32),
         dim3(32, kPositionWarps, 1),
         0,
         total_kernel<T>,
         a);
  if (!a.dx) return;
  if (s.sets > 1 && s.statistics == BatchStatistics::prefix) {
    launch("slopes of prefixes", blocks(cols), kThreads, 0, prefix_slopes_kernel<T>, a);
  } else if (s.sets > 1) {
    launch("slopes of positions",
           blocks(s.positions * cols),
           kThreads,
           0,
           position_slopes_kernel<T>,
           a);
  }
  with_pack<T>(all, [&](auto n) {
    launch("the gradient of batch norm",
           position_grid(s.positions, cols, n),
           position_block(),
           0,
           dx_kernel<T, n>,
           a);
  });
}
template void run(Cuda, const BatchNormBackward<float>&);
template void run(Cuda, const BatchNormBackward<Bf16>&);

}  // namespace norma::kernels
