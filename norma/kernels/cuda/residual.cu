#include "norma/kernels/cuda/alpha_sums.cuh"
#include "norma/kernels/residual.h"

namespace norma::kernels {

namespace {

/// What one α makes of the two sides: y = from_x·x + from_b·b, and the slope of y in α is
/// turn_x·x + turn_step·(b − x), which keeps its digits where b is near x.
template <class C>
struct Mix {
  C from_x;
  C from_b;
  C turn_x;
  C turn_step;
};

template <class C>
__device__ Mix<C> mix_of(float alpha_raw, double mult) {
  const C alpha = fabs(static_cast<C>(mult) * static_cast<C>(alpha_raw));
  const C nu = rsqrt(alpha * alpha + (1 - alpha) * (1 - alpha));
  const C turn = nu * nu * nu;
  return {.from_x = nu * (1 - alpha),
          .from_b = nu * alpha,
          .turn_x = turn * (1 - 2 * alpha),
          .turn_step = turn * (1 - alpha)};
}

template <class C, int N>
__device__ void read_mixes(
    const float* alpha_raw, Index alphas, double mult, Index c, Mix<C> (&to)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    // One alpha for all is worked out once.
    to[i] = alphas == 1 && i > 0 ? to[0] : mix_of<C>(alpha_raw[alphas == 1 ? 0 : c + i], mult);
  }
}

/// The thread's place in a grid of column_grid and column_block: N columns from c on, and the rows
/// begin, begin + kColumnWarps, … below end. What belongs to columns is read once.
struct Tile {
  Index c;
  Index begin;
  Index end;

  __device__ Tile(Index rows, Index chunk_rows, int n)
      : c((static_cast<Index>(blockIdx.x) * kColumnLanes + threadIdx.x) * n),
        begin(static_cast<Index>(blockIdx.y) * chunk_rows + threadIdx.y),
        end(min((static_cast<Index>(blockIdx.y) + 1) * chunk_rows, rows)) {}
};

template <class T, int N>
__global__ void forward_kernel(ResidualForward<T> a, Index chunk_rows) {
  using C = Math<T>;
  const Tile tile(a.y.rows, chunk_rows, N);
  if (tile.c >= a.y.cols) return;
  C factors[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    factors[i] = static_cast<C>(a.lambda == nullptr ? a.scale : a.scale * a.lambda[tile.c + i]);
  }
  for (Index r = tile.begin; r < tile.end; r += kColumnWarps) {
    C x[N];
    C b[N];
    read_pack(a.x.row(r) + tile.c, x);
    read_pack(a.b.row(r) + tile.c, b);
#pragma unroll
    for (int i = 0; i < N; ++i) b[i] += factors[i] * x[i];
    write_pack(a.y.row(r) + tile.c, b);
  }
}

template <class T, int N>
__global__ void alerp_forward_kernel(AlerpForward<T> a, Index chunk_rows) {
  using C = Math<T>;
  const Tile tile(a.y.rows, chunk_rows, N);
  if (tile.c >= a.y.cols) return;
  Mix<C> mixes[N];
  read_mixes(a.alpha_raw, a.alphas, a.mult, tile.c, mixes);
  for (Index r = tile.begin; r < tile.end; r += kColumnWarps) {
    C x[N];
    C b[N];
    read_pack(a.x.row(r) + tile.c, x);
    read_pack(a.b.row(r) + tile.c, b);
#pragma unroll
    for (int i = 0; i < N; ++i) b[i] = mixes[i].from_x * x[i] + mixes[i].from_b * b[i];
    write_pack(a.y.row(r) + tile.c, b);
  }
}

template <class T, int N>
__global__ void alerp_backward_kernel(AlerpBackward<T> a, Index chunk_rows) {
  using C = Math<T>;
  const bool wants_alpha = a.dalpha != nullptr;
  const Tile tile(a.dy.rows, chunk_rows, N);
  Mix<C> mixes[N] = {};
  if (tile.c < a.dy.cols) read_mixes(a.alpha_raw, a.alphas, a.mult, tile.c, mixes);
  Wide<T>* const partials[1] = {wants_alpha ? a.partials : nullptr};
  walk_columns<1, N, C>(
      a.dy.rows, a.dy.cols, chunk_rows, partials, [&](Index r, Index c, C(&sums)[1][N]) {
        C dy[N];
        C x[N];
        C b[N];
        read_pack(a.dy.row(r) + c, dy);
        if (wants_alpha) {
          read_pack(a.x.row(r) + c, x);
          read_pack(a.b.row(r) + c, b);
#pragma unroll
          for (int i = 0; i < N; ++i) {
            const C slope = mixes[i].turn_x * x[i] + mixes[i].turn_step * (b[i] - x[i]);
            sums[0][i] += dy[i] * slope;
          }
        }
#pragma unroll
        for (int i = 0; i < N; ++i) {
          x[i] = mixes[i].from_x * dy[i];
          b[i] = mixes[i].from_b * dy[i];
        }
        if (a.dx) put_pack(a.dx.row(r) + c, x, a.dx_into);
        if (a.db) put_pack(a.db.row(r) + c, b, a.db_into);
      });
}

}  // namespace

template <class T>
void run(Cuda, const ResidualForward<T>& a) {
  const RowChunks chunks = gpu_chunks(a.y.rows);
  constexpr int kWide = kPack<T>;
  with_pack<T>(packs(a.x, kWide) && packs(a.b, kWide) && packs(a.y, kWide), [&](auto n) {
    launch("a residual sum",
           column_grid(a.y.cols, n, chunks),
           column_block(),
           0,
           forward_kernel<T, n>,
           a,
           chunks.size);
  });
}
template void run(Cuda, const ResidualForward<float>&);
template void run(Cuda, const ResidualForward<Bf16>&);

template <class T>
void run(Cuda, const AlerpForward<T>& a) {
  const RowChunks chunks = gpu_chunks(a.y.rows);
  constexpr int kWide = kPack<T>;
  with_pack<T>(packs(a.x, kWide) && packs(a.b, kWide) && packs(a.y, kWide), [&](auto n) {
    launch("alerp",
           column_grid(a.y.cols, n, chunks),
           column_block(),
           0,
           alerp_forward_kernel<T, n>,
           a,
           chunks.size);
  });
}
template void run(Cuda, const AlerpForward<float>&);
template void run(Cuda, const AlerpForward<Bf16>&);

template <class T>
void run(Cuda, const AlerpBackward<T>& a) {
  const RowChunks chunks = gpu_chunks(a.dy.rows);
  constexpr int kWide = kPack<T>;
  // Rows that are not wanted have no columns, and never hinder.
  const bool fit = packs(a.dy, kWide) && packs(a.x, kWide) && packs(a.b, kWide) &&
                   packs(a.dx, kWide) && packs(a.db, kWide);
  with_pack<T>(fit, [&](auto n) {
    launch("the gradient of alerp",
           column_grid(a.dy.cols, n, chunks),
           column_block(),
           0,
           alerp_backward_kernel<T, n>,
           a,
           chunks.size);
  });
  if (a.dalpha == nullptr) return;
  finish_alpha(
      a.partials, chunks.count, a.dy.cols, a.alpha_raw, a.alphas, a.mult, a.dalpha, a.dalpha_into);
}
template void run(Cuda, const AlerpBackward<float>&);
template void run(Cuda, const AlerpBackward<Bf16>&);

}  // namespace norma::kernels
