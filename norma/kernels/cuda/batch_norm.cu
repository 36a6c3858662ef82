// Forward; the gradient is in batch_norm_backward.cu.
#include "norma/kernels/cuda/batch_norm.cuh"

namespace norma::kernels {

namespace {

struct Moments {
  double count;
  double mean;
  double squares;  // Σ (x − mean)²
};

/// Moments of the union of two sets, without a difference of large squares.
__device__ void merge(Moments& into, const Moments& more) {
  if (more.count == 0) return;
  const double count = into.count + more.count;
  const double gap = more.mean - into.mean;
  into.mean += gap * (more.count / count);
  into.squares += more.squares + gap * gap * (into.count * more.count / count);
  into.count = count;
}

/// Mean and squares of every position over the batch: sums (2, positions, cols). A warp takes
/// every eighth sequence, relative to the first it meets, so that a large mean does not cancel.
template <class T, int N>
__global__ void moments_kernel(BatchNormForward<T> a) {
  using C = Math<T>;
  __shared__ Moments shared[kBatchWarps][kBatchLanes];
  const Index t = blockIdx.x;
  const Index c = (static_cast<Index>(blockIdx.y) * kBatchLanes + threadIdx.x) * N;
  C first[N] = {};
  C sum[N] = {};
  C squares[N] = {};
  double count = 0;
  if (c < a.x.cols) {
    for (Index b = threadIdx.y; b < a.shape.batch; b += kBatchWarps) {
      if (!valid(a, b, t)) continue;
      C x[N];
      read_pack(a.x.row(b * a.shape.positions + t) + c, x);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        if (count == 0) first[k] = x[k];
        const C d = x[k] - first[k];
        sum[k] += d;
        squares[k] += d * d;
      }
      count += 1;
    }
  }
#pragma unroll
  for (int k = 0; k < N; ++k) {
    Moments mine{count, 0, 0};
    if (count > 0) {
      const double gap = static_cast<double>(sum[k]) / count;
      mine.mean = static_cast<double>(first[k]) + gap;
      mine.squares = fmax(0.0, static_cast<double>(squares[k]) - static_cast<double>(sum[k]) * gap);
    }
    __syncthreads();
    shared[threadIdx.y][threadIdx.x] = mine;
    __syncthreads();
    if (threadIdx.y != 0 || c >= a.x.cols) continue;
    Moments all{0, 0, 0};
    for (int w = 0; w < kBatchWarps; ++w) merge(all, shared[w][threadIdx.x]);
    const Index at = t * a.x.cols + c + k;
    a.sums[at] = all.mean;
    a.sums[a.shape.positions * a.x.cols + at] = all.squares;
  }
}

template <class T>
__device__ Moments moments_at(const BatchNormForward<T>& a, Index t, Index c) {
  const Index at = t * a.x.cols + c;
  return {
      static_cast<double>(count_at(a, t)), a.sums[at], a.sums[a.shape.positions * a.x.cols + at]};
}

template <class T>
__device__ void keep(const BatchNormForward<T>& a, Index at, const Moments& m) {
  const double var = m.count == 0 ? 0 : m.squares / m.count;
  write(a.mean[at], m.mean);
  write(a.shift[at], m.mean - read<double>(a.mean[at]));
  write(a.rstd[at], 1 / sqrt(var + a.eps));
}

template <class T>
__device__ void update(const BatchNormForward<T>& a, Index at, const Moments& m) {
  if (!a.update || m.count == 0) return;
  const double mean = read<double>(a.running_mean[at]);
  write(a.running_mean[at], mean + a.momentum * (m.mean - mean));
  if (m.count < 2) return;  // one element has no unbiased variance
  const double var = read<double>(a.running_var[at]);
  write(a.running_var[at], var + a.momentum * (m.squares / (m.count - 1) - var));
}

/// The running statistics normalize.
template <class T>
__global__ void keep_running_kernel(BatchNormForward<T> a) {
  const Index at = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= a.shape.sets * a.x.cols) return;
  a.mean[at] = a.running_mean[at];
  a.shift[at] = 0;
  write(a.rstd[at], 1 / sqrt(read<double>(a.running_var[at]) + a.eps));
}

template <class T>
__global__ void by_position_kernel(BatchNormForward<T> a) {
  const Index at = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= a.shape.positions * a.x.cols) return;
  const Moments m = moments_at(a, at / a.x.cols, at % a.x.cols);
  if (!a.shape.constant) keep(a, at, m);
  update(a, at, m);
}

/// Every prefix in turn, one thread for a column; the last prefix is all there is.
template <class T>
__global__ void prefix_kernel(BatchNormForward<T> a) {
  const Index c = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= a.x.cols) return;
  Moments total{0, 0, 0};
  for (Index t = 0; t < a.shape.positions; ++t) {
    merge(total, moments_at(a, t, c));
    keep(a, t * a.x.cols + c, total);
  }
  update(a, c, total);
}

constexpr int kPositionWarps = 32;

/// All positions: a warp takes every 32nd, for 32 columns; the warps are merged in order.
template <class T>
__global__ void all_kernel(BatchNormForward<T> a) {
  __shared__ Moments shared[kPositionWarps][32];
  const Index c = static_cast<Index>(blockIdx.x) * 32 + threadIdx.x;
  Moments mine{0, 0, 0};
  if (c < a.x.cols) {
    for (Index t = threadIdx.y; t < a.shape.positions; t += kPositionWarps) {
      merge(mine, moments_at(a, t, c));
    }
  }
  shared[threadIdx.y][threadIdx.x] = mine;
  __syncthreads();
  if (threadIdx.y != 0 || c >= a.x.cols) return;
  Moments total{0, 0, 0};
  for (int w = 0; w < kPositionWarps; ++w) merge(total, shared[w][threadIdx.x]);
  if (!a.shape.constant) keep(a, c, total);
  update(a, c, total);
}

template <class T, int N>
__global__ void normalize_kernel(BatchNormForward<T> a) {
  using C = Math<T>;
  const Index t = blockIdx.x;
  const Index c = (static_cast<Index>(blockIdx.y) * kBatchLanes + threadIdx.x) * N;
  if (c >= a.x.cols) return;
  const Index at = a.shape.set_of(t) * a.x.cols + c;
  const Center<C, N> center(a, at);
  C factor[N];
  C bias[N];
#pragma unroll
  for (int k = 0; k < N; ++k) {
    factor[k] = read<C>(a.rstd[at + k]) * (a.gain == nullptr ? C{1} : read<C>(a.gain[c + k]));
    bias[k] = a.bias == nullptr ? C{0} : read<C>(a.bias[c + k]);
  }
  for (Index b = threadIdx.y; b < a.shape.batch; b += kBatchWarps) {
    const Index r = b * a.shape.positions + t;
    C values[N] = {};
    if (valid(a, b, t)) {
      read_pack(a.x.row(r) + c, values);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        values[k] = center.distance(values[k], k) * factor[k] + bias[k];
      }
    }
    write_pack(a.y.row(r) + c, values);
  }
}

template <class T>
void statistics(const BatchNormForward<T>& a) {
  constexpr int kThreads = 128;
  const BatchNormShape& s = a.shape;
  const auto blocks = [](Index count) {
    return static_cast<unsigned>((count + kThreads - 1) / kThreads);
  };
  if (s.constant) {
    launch("running statistics", blocks(s.sets * a.x.cols), kThreads, 0, keep_running_kernel<T>, a);
    if (!a.update) return;
  }
  with_pack<T>(packs(a.x, kPack<T>), [&](auto n) {
    launch("moments of positions",
           position_grid(s.positions, a.x.cols, n),
           position_block(),
           0,
           moments_kernel<T, n>,
           a);
  });
  if (s.statistics == BatchStatistics::position) {
    launch("statistics of positions",
           blocks(s.positions * a.x.cols),
           kThreads,
           0,
           by_position_kernel<T>,
           a);
  } else if (s.statistics == BatchStatistics::prefix && !s.constant) {
    launch("statistics of prefixes", blocks(a.x.cols), kThreads, 0, prefix_kernel<T>, a);
  } else {
    launch("statistics of a batch",
           static_cast<unsigned>((a.x.cols + 31) / 32),
           dim3(32, kPositionWarps, 1),
           0,
           all_kernel<T>,
           a);
  }
}

}  // namespace

template <class T>
void run(Cuda, const BatchNormForward<T>& a) {
  statistics(a);
  with_pack<T>(packs(a.x, kPack<T>) && packs(a.y, kPack<T>), [&](auto n) {
    launch("batch norm",
           position_grid(a.shape.positions, a.x.cols, n),
           position_block(),
           0,
           normalize_kernel<T, n>,
           a);
  });
}
template void run(Cuda, const BatchNormForward<float>&);
template void run(Cuda, const BatchNormForward<Bf16>&);

}  // namespace norma::kernels
