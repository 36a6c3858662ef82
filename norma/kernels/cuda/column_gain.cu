#include <algorithm>

#include "norma/kernels/column_gain.h"
#include "norma/kernels/cuda/elementwise.cuh"

namespace norma::kernels {

namespace {

/// to (+)= mult · gain · from, with gain 1 where absent.
template <class T>
struct Scaling {
  Rows<const T> from;
  const Wide<T>* gain;
  Rows<T> to;
  Into into;
  Index block;
  double mult;
};

/// to[i] = the factor of column c + i.
template <class T, int N>
__device__ inline void read_scales(const Scaling<T>& a, Index c, Math<T> (&to)[N]) {
  using C = Math<T>;
  const auto factor = [&](Index gain) {
    return static_cast<C>(a.mult) * (a.gain == nullptr ? C{1} : read<C>(a.gain[gain]));
  };
  // Divisions are slow; mostly there is none to do, or one.
  const bool shared = a.block % N == 0;
  const C one = shared ? factor(c / a.block) : C{0};
#pragma unroll
  for (int k = 0; k < N; ++k) {
    to[k] = shared ? one : factor(a.block == 1 ? c + k : (c + k) / a.block);
  }
}

template <class T, int N>
__device__ inline void put_scaled(
    const Scaling<T>& a, Index r, Index c, const Math<T> (&values)[N], const Math<T> (&scales)[N]) {
  if (!a.to) return;
  Math<T> scaled[N];
#pragma unroll
  for (int k = 0; k < N; ++k) scaled[k] = values[k] * scales[k];
  put_pack(a.to.row(r) + c, scaled, a.into);
}

template <class T, int N>
__global__ void scale_kernel(Scaling<T> a) {
  using C = Math<T>;
  const Index c = own_column<N>();
  if (c >= a.from.cols) return;
  C scales[N];
  read_scales(a, c, scales);
  walk_all_rows(
      a.from.rows,
      [&](Index r) { return load_packs<N>(r, c, a.from); },
      [&](Index r, const Packs<T, N, 1>& in) {
        C values[N];
        unpack(in.of[0], values);
        put_scaled(a, r, c, values, scales);
      });
}

/// A gain per column: dx, and the sums of dy·x over a chunk of rows.
template <class T, int N>
__global__ void columns_kernel(Scaling<T> a,
                               Rows<const T> x,
                               Wide<T>* sums_of_chunks,
                               Index chunk_rows) {
  using C = Math<T>;
  const Index c = own_column<N>();
  C sums[1][N] = {};
  if (c < x.cols) {
    C scales[N];
    read_scales(a, c, scales);
    walk_chunk(
        x.rows,
        chunk_rows,
        [&](Index r) { return load_packs<N>(r, c, a.from, x); },
        [&](Index r, const Packs<T, N, 2>& in) {
          C dy[N];
          C values[N];
          unpack(in.of[0], dy);
          unpack(in.of[1], values);
#pragma unroll
          for (int k = 0; k < N; ++k) sums[0][k] += dy[k] * values[k];
          put_scaled(a, r, c, dy, scales);
        });
  }
  Wide<T>* const partials[1] = {sums_of_chunks};
  put_chunk_sums(sums, x.cols, partials);
}

/// Gains that fit whole into the columns of a block of threads; a wider one has blocks to itself,
/// which go over its columns tile by tile.
constexpr Index gains_of_block(Index block, int n) {
  return std::max<Index>(1, static_cast<Index>(kColumnLanes) * n / block);
}

/// Shared gains: dx, and the sums of dy·x over a chunk of rows and the columns of each gain, in
/// double like everywhere. N divides a gain's columns, so that a pack has one gain.
template <class T, int N>
__global__ void shared_kernel(Scaling<T> a,
                              Rows<const T> x,
                              double* sums_of_chunks,
                              Index chunk_rows) {
  using C = Math<T>;
  __shared__ double parts[kColumnWarps][kColumnLanes];
  const Index together = gains_of_block(a.block, N);
  const Index gains = x.cols / a.block;
  const Index first_gain = static_cast<Index>(blockIdx.x) * together;
  const Index begin = first_gain * a.block;
  const Index end = min(x.cols, begin + together * a.block);
  double sum = 0;
  for (Index c = begin + threadIdx.x * N; c < end; c += kColumnLanes * N) {
    C scales[N];
    read_scales(a, c, scales);
    walk_chunk(
        x.rows,
        chunk_rows,
        [&](Index r) { return load_packs<N>(r, c, a.from, x); },
        [&](Index r, const Packs<T, N, 2>& in) {
          C dy[N];
          C values[N];
          unpack(in.of[0], dy);
          unpack(in.of[1], values);
          C products = 0;
#pragma unroll
          for (int k = 0; k < N; ++k) products += dy[k] * values[k];
          sum += products;
          put_scaled(a, r, c, dy, scales);
        });
  }
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0) return;
  sum = 0;
  for (int w = 0; w < kColumnWarps; ++w) sum += parts[w][threadIdx.x];
  parts[0][threadIdx.x] = sum;
  __syncwarp();
  const Index gain = first_gain + threadIdx.x;
  if (threadIdx.x >= together || gain >= gains) return;
  const int lanes = together == 1 ? kColumnLanes : static_cast<int>(a.block) / N;
  sum = 0;
  for (int i = 0; i < lanes; ++i) sum += parts[0][threadIdx.x * lanes + i];
  sums_of_chunks[static_cast<Index>(blockIdx.y) * gains + gain] = sum;
}

template <class T>
void scale(const Scaling<T>& a) {
  with_pack<T>(packs(a.from, kPack<T>) && packs(a.to, kPack<T>), [&](auto n) {
    launch("gains of columns",
           element_grid(a.from.rows, a.from.cols, n),
           column_block(),
           0,
           scale_kernel<T, n>,
           a);
  });
}

}  // namespace

template <class T>
void run(Cuda, const ColumnGainForward<T>& a) {
  scale<T>({a.x, a.gain, a.y, Into::set, a.block, a.mult});
}
template void run(Cuda, const ColumnGainForward<float>&);
template void run(Cuda, const ColumnGainForward<Bf16>&);

template <class T>
void run(Cuda, const ColumnGainBackward<T>& a) {
  const Scaling<T> to_dx{a.dy, a.gain, a.dx, a.dx_into, a.block, a.mult};
  if (a.dgain == nullptr) {
    if (a.dx) scale(to_dx);
    return;
  }
  const Index cols = a.dy.cols;
  const Index gains = cols / a.block;
  const RowChunks chunks = gpu_chunks(a.dy.rows);
  const auto rows = static_cast<unsigned>(chunks.count);
  const bool fit = packs(a.x, kPack<T>) && packs(a.dy, kPack<T>) && packs(a.dx, kPack<T>);
  if (a.partials != nullptr) {
    with_pack<T>(fit, [&](auto n) {
      launch("the gradient of gains",
             column_grid(cols, n, chunks),
             column_block(),
             0,
             columns_kernel<T, n>,
             to_dx,
             a.x,
             a.partials,
             chunks.size);
    });
    finish_columns(a.partials, chunks.count, cols, a.dgain, a.dgain_into, a.mult);
  } else {
    with_pack<T>(fit && a.block % kPack<T> == 0, [&](auto n) {
      const Index together = gains_of_block(a.block, n);
      launch("the gradient of shared gains",
             dim3(static_cast<unsigned>((gains + together - 1) / together), rows, 1),
             column_block(),
             0,
             shared_kernel<T, n>,
             to_dx,
             a.x,
             a.shared,
             chunks.size);
    });
    finish_columns(a.shared, chunks.count, gains, a.dgain, a.dgain_into, a.mult);
  }
}
template void run(Cuda, const ColumnGainBackward<float>&);
template void run(Cuda, const ColumnGainBackward<Bf16>&);

}  // namespace norma::kernels
