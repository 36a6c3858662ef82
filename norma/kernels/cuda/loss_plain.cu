// cross_entropy of rows that fit the shared memory of one block, without a scale. A block has one
// row at a time; a thread fetches, reads and refills packs of its own, so that nobody else has to
// be waited for, and while it writes the gradient of a row the next row is on its way.
#include <algorithm>

#include <cuda_pipeline.h>

#include "norma/kernels/cuda/cluster.cuh"
#include "norma/kernels/cuda/loss_quick.cuh"

namespace norma::kernels {

namespace {

constexpr int N = kPack<Bf16>;
constexpr int kMostThreads = 640;  // ten packs each of 50304 classes; two blocks fit
constexpr std::size_t kMostShared = std::size_t{220} << 10;

/// The classes of one block's row in shared memory.
struct Stage {
  Bf16* logits;
  int packs;

  __device__ void fetch(const Rows<const Bf16>& u, Index row, int p) const {
    if (row < u.rows) {
      __pipeline_memcpy_async(logits + p * N, u.row(row) + p * N, N * sizeof(Bf16));
    }
  }
  /// The largest logit of this warp; NaN is passed over, the sum meets it.
  __device__ float top() const {
    __nv_bfloat162 most = __float2bfloat162_rn(-INFINITY);
#pragma unroll 5
    for (int p = threadIdx.x; p < packs; p += blockDim.x) {
      const auto pairs =
          load_pack<N / 2>(reinterpret_cast<const __nv_bfloat162*>(logits) + p * (N / 2));
      most = __hmax2(most,
                     __hmax2(__hmax2(pairs.at[0], pairs.at[1]), __hmax2(pairs.at[2], pairs.at[3])));
    }
    return warp_max(fmaxf(__low2float(most), __high2float(most)));
  }
  /// Σ exp(u − from) over this thread's classes but the target.
  __device__ float others(float from, int target) const {
    float sums[2] = {};
#pragma unroll 2
    for (int p = threadIdx.x; p < packs; p += blockDim.x) {
      float above[N];
      read_pack(logits + p * N, above);
#pragma unroll
      for (int k = 0; k < N; ++k) above[k] -= from;
      const unsigned here = place_in(target, p * N);
      if (here < N) {
#pragma unroll
        for (int k = 0; k < N; ++k) {
          if (k == static_cast<int>(here)) above[k] = -INFINITY;
        }
      }
#pragma unroll
      for (int k = 0; k < N; ++k) sums[k % 2] += quick_exp(above[k]);
    }
    return sums[0] + sums[1];
  }
  __device__ void write_gradient(Bf16* du, float top, int target, const RowEnd& end, int p) const {
    float dz[N];
    read_pack(logits + p * N, dz);
#pragma unroll
    for (int k = 0; k < N; ++k) dz[k] = end.grow * quick_exp(dz[k] - top);
    const unsigned here = place_in(target, p * N);
    if (here < N) {
#pragma unroll
      for (int k = 0; k < N; ++k) {
        if (k == static_cast<int>(here)) dz[k] = end.hit;
      }
    }
    if (target == -1) {  // such a row may hold anything
#pragma unroll
      for (int k = 0; k < N; ++k) dz[k] = 0;
    }
    write_pack(du + p * N, dz);
  }
};

__global__ void __launch_bounds__(kMostThreads, 2) plain_kernel(QuickLoss a) {
  extern __shared__ __align__(32) unsigned char memory[];
  // By turns, so that a warp ahead of the others does not overwrite what they still read.
  __shared__ Part of_warp[2][kMostThreads / 32];
  const Stage stage{reinterpret_cast<Bf16*>(memory), static_cast<int>(a.u.cols) / N};
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int warps = blockDim.x / 32;
  const auto share = static_cast<float>(1 / *a.tokens);

  Index row = blockIdx.x;
  for (int p = threadIdx.x; p < stage.packs; p += blockDim.x) stage.fetch(a.u, row, p);
  __pipeline_commit();
  int next_target = a.targets[row];
  for (int side = 0; row < a.u.rows; side ^= 1) {
    const int target = next_target;
    const Index next = row + gridDim.x;
    if (next < a.u.rows) next_target = a.targets[next];
    // Before du may lie there.
    const bool inside = target >= 0 && target < a.u.cols;
    const float hit = inside ? read<float>(a.u.row(row)[target]) : 0;

    __pipeline_wait_prior(0);  // a thread reads what it fetched itself
    const float top = stage.top();
    const float others = warp_sum(stage.others(top == -INFINITY ? 0 : top, target));
    if (lane == 0) of_warp[side][warp] = {top, others};
    __syncthreads();
    const Part all = gather(lane < warps ? of_warp[side][lane] : no_part());
    const RowEnd end = end_row(a, target, all, hit - all.top, share);
    if (threadIdx.x == 0) a.losses[row] = static_cast<double>(end.loss);

#pragma unroll 2
    for (int p = threadIdx.x; p < stage.packs; p += blockDim.x) {
      if (a.du) stage.write_gradient(a.du.row(row), all.top, target, end, p);
      stage.fetch(a.u, next, p);
    }
    __pipeline_commit();
    row = next;
  }
}

}  // namespace

bool run_plain(const QuickLoss& a) {
  const std::size_t shared = static_cast<std::size_t>(a.u.cols) * sizeof(Bf16);
  if (shared > kMostShared) return false;
  const auto packs = static_cast<int>(a.u.cols / N);
  const int turns = (packs + kMostThreads - 1) / kMostThreads;
  const int threads = ((packs + turns - 1) / turns + 31) / 32 * 32;
  // As many blocks as fit; each goes on with the next row that nobody has.
  const auto room = static_cast<Index>(kMostShared / (shared + 2048));
  const Index blocks = std::clamp<Index>(std::min<Index>(room, 1280 / threads), 1, 16);
  launch_clusters("cross entropy",
                  static_cast<unsigned>(std::min(a.u.rows, blocks * device::multiprocessors())),
                  1,
                  threads,
                  shared,
                  plain_kernel,
                  a);
  return true;
}

}  // namespace norma::kernels
