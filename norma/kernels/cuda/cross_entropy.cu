// Every form of cross_entropy, where there is no quick one. A cluster of blocks takes the rows of a
// chunk, a few at a time; each block has its share of the columns, the same for all rows. The
// gradient reads the logits again.
#include <algorithm>

#include "norma/kernels/cross_entropy.h"
#include "norma/kernels/cuda/cluster.cuh"
#include "norma/kernels/cuda/column_sums.cuh"
#include "norma/kernels/cuda/loss_quick.cuh"
#include "norma/kernels/cuda/loss_share.cuh"

namespace norma::kernels {

namespace {

constexpr int kMostThreads = 416;
constexpr int kMostWarps = kMostThreads / 32;
constexpr int kSlice = 6656;  // columns of a block

struct Plan {
  Index chunk_rows;
  int blocks;  // of a cluster
  int packs;   // of a block, for each row
};

template <class T, int N>
__global__ void __launch_bounds__(kMostThreads) loss_kernel(CrossEntropyLoss<T> a, Plan plan) {
  using C = Math<T>;
  constexpr int R = kLossRows;
  __shared__ Seen<C> of_warp[kMostWarps][R];
  __shared__ double hits[R];
  // By turns, so that a block ahead of the others does not overwrite what they still read.
  __shared__ Seen<double> of_block[2][kMostClusterBlocks][R];
  __shared__ double hits_of_block[2][kMostClusterBlocks][R];
  __shared__ RowWeights<C> weights[R];

  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int warps = blockDim.x / 32;
  const int rank = static_cast<int>(blockIdx.x) % plan.blocks;
  const Index chunk = blockIdx.x / static_cast<unsigned>(plan.blocks);
  const Index begin = chunk * plan.chunk_rows;
  const int width = plan.packs * N;
  const int left = static_cast<int>(a.u.cols / N) - rank * plan.packs;
  const Share<T, N> share{
      .a = a,
      .begin = begin,
      .end = begin + plan.chunk_rows < a.u.rows ? begin + plan.chunk_rows : a.u.rows,
      .chunk = chunk,
      .offset = rank * width,
      .packs = left < 0 ? 0 : (left < plan.packs ? left : plan.packs),
      .curve = {static_cast<C>(a.softcap)}};

  if (plan.blocks > 1) cluster_sync(plan.blocks);  // all have begun: their memory may be written
  int side = 0;
  for (Index row = begin; row < share.end; row += R, side ^= 1) {
    Seen<C> seen[R];
    share.look(row, seen, hits);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      gather(seen[r]);
      if (lane == 0) of_warp[warp][r] = seen[r];
    }
    __syncthreads();
    for (int r = warp; r < R; r += warps) {
      Seen<C> all = lane < warps ? of_warp[lane][r] : nothing_seen<C>();
      gather(all);
      if (lane >= plan.blocks) continue;
      *in_block(&of_block[side][rank][r], plan.blocks, lane) = {
          all.top, all.others, all.sum, all.mass, all.cross, all.first};
      *in_block(&hits_of_block[side][rank][r], plan.blocks, lane) = hits[r];
    }
    cluster_sync(plan.blocks);
    for (int r = warp; r < R && row + r < share.end; r += warps) {
      Seen<double> all = lane < plan.blocks ? of_block[side][lane][r] : nothing_seen<double>();
      gather(all);
      if (lane != 0) continue;
      const int target = a.targets == nullptr ? -1 : a.targets[row + r];
      const bool inside = target >= 0 && target < a.u.cols;
      const double hit = inside ? hits_of_block[side][target / width][r] : 0;
      const RowResult result = finish_row(a, row + r, all, hit);
      const RowWeights<double>& w = result.weights;
      weights[r] = {static_cast<C>(w.top),
                    static_cast<C>(w.grow),
                    static_cast<C>(w.even),
                    static_cast<C>(w.keep),
                    static_cast<C>(w.hit),
                    w.ignored};
      if (rank != 0) continue;
      a.losses[row + r] = result.loss;
      if (a.right != nullptr) a.right[row + r] = inside && all.first == target ? 1 : 0;
    }
    __syncthreads();
    if (a.du) share.write_gradient(row, weights);
  }
}

/// factors[V …) = (scale / mean(scale))^q
template <class T>
__global__ void precondition_kernel(CrossEntropyLoss<T> a) {
  constexpr int kThreads = 1024;
  double sum = 0;
  for (Index v = threadIdx.x; v < a.u.cols; v += kThreads) sum += read<double>(a.scale[v]);
  const double mean = block_sum<kThreads>(sum) / static_cast<double>(a.u.cols);
  for (Index v = threadIdx.x; v < a.u.cols; v += kThreads) {
    a.factors[a.u.cols + v] = pow(read<double>(a.scale[v]) / mean, a.precondition);
  }
}

template <class T, int N>
void start(const CrossEntropyLoss<T>& a) {
  const auto packs_of_row = static_cast<int>(a.u.cols / N);
  Plan plan{.chunk_rows = 0, .blocks = 1, .packs = packs_of_row};
  while (has_clusters() && plan.blocks < kMostClusterBlocks && plan.packs * N > kSlice) {
    plan.blocks *= 2;
    plan.packs = (packs_of_row + plan.blocks - 1) / plan.blocks;
  }
  // With sums over rows there is a partial sum for every chunk; without, more chunks than fit the
  // GPU at once even out its end.
  const Index most = a.dscale != nullptr ? 256 : std::max(256, 4096 / plan.blocks);
  const RowChunks chunks(a.u.rows, most);
  plan.chunk_rows = chunks.size;
  const int turns = (plan.packs + kMostThreads - 1) / kMostThreads;
  const int threads = ((plan.packs + turns - 1) / turns + 31) / 32 * 32;
  launch_clusters("cross entropy",
                  static_cast<unsigned>(chunks.count * plan.blocks),
                  plan.blocks,
                  threads,
                  0,
                  loss_kernel<T, N>,
                  a,
                  plan);
  if (a.dscale == nullptr) return;
  finish_columns(
      a.partials, chunks.count, a.u.cols, a.dscale, Into::set, static_cast<double>(a.scale_mult));
}

/// What training asks for has forms of its own. f32 has none: there it is the digits that count.
bool run_quick(const CrossEntropyLoss<float>&) { return false; }
bool run_quick(const CrossEntropyLoss<Bf16>& a) {
  if (a.soft || a.softcap != 0 || a.smoothing != 0 || a.precondition != 0 || a.right != nullptr) {
    return false;
  }
  return a.scale == nullptr ? run_plain(a) : run_scaled(a);
}

}  // namespace

template <class T>
void run(Cuda, const CrossEntropyLoss<T>& a) {
  if (a.precondition != 0) {
    launch("factors of preconditioning", 1, 1024, 0, precondition_kernel<T>, a);
  }
  const bool all = packs(a.u, kPack<T>) && (!a.du || packs(a.du, kPack<T>)) &&
                   (!a.soft || packs(a.soft, kPack<T>));
  if (all && run_quick(a)) return;
  with_pack<T>(all, [&](auto n) { start<T, n>(a); });
}
template void run(Cuda, const CrossEntropyLoss<float>&);
template void run(Cuda, const CrossEntropyLoss<Bf16>&);

}  // namespace norma::kernels
