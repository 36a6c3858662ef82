// cross_entropy of rows that fit the shared memory of one block, without a scale. A block has one
// row at a time: it reads the row once, keeps it in shared memory while the softmax is taken, and
// writes the gradient from there. Two blocks share a multiprocessor, so that one reads while the
// other writes. (Fetching the next row ahead with asynchronous copies took three times as long.)
#include <algorithm>

#include "norma/kernels/cuda/cluster.cuh"
#include "norma/kernels/cuda/loss_quick.cuh"

namespace norma::kernels {

namespace {

constexpr int N = kPack<Bf16>;
constexpr int kMostThreads = 768;
constexpr int kAtOnce = 3;  // packs that a thread has on their way
constexpr std::size_t kMostShared = std::size_t{220} << 10;

using LogitPack = Pack<Bf16, N>;

/// Takes a pack into the part of its thread; the target's place is left out of the sum.
__device__ inline void take(const LogitPack& pack, unsigned here, Part& part) {
  float z[N];
  unpack(pack, z);
  float top = part.top;
#pragma unroll
  for (int k = 0; k < N; ++k) top = fmaxf(top, z[k]);  // NaN is passed over, the sum meets it
  const float from = top == -INFINITY ? 0 : top;
  part.others *= quick_exp(part.top - from);
  part.top = top;
  if (here < N) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      if (k == static_cast<int>(here)) z[k] = -INFINITY;
    }
  }
#pragma unroll
  for (int k = 0; k < N; ++k) part.others += quick_exp(z[k] - from);
}

__device__ inline void write_gradient(
    const LogitPack& pack, float top, unsigned here, const RowEnd& end, Bf16* du) {
  float dz[N];
  unpack(pack, dz);
#pragma unroll
  for (int k = 0; k < N; ++k) dz[k] = end.grow * quick_exp(dz[k] - top);
  if (here < N) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      if (k == static_cast<int>(here)) dz[k] = end.hit;
    }
  }
  write_pack(du, dz);
}

__global__ void __launch_bounds__(kMostThreads, 2) plain_kernel(QuickLoss a) {
  extern __shared__ __align__(32) unsigned char memory[];
  // By turns, so that a warp ahead of the others does not overwrite what they still read.
  __shared__ Part of_warp[2][kMostThreads / 32];
  auto* stage = reinterpret_cast<LogitPack*>(memory);  // a thread reads what it stored itself
  const int packs = static_cast<int>(a.u.cols) / N;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int warps = blockDim.x / 32;
  const auto share = static_cast<float>(1 / *a.tokens);

  int side = 0;
  for (Index row = blockIdx.x; row < a.u.rows; row += gridDim.x, side ^= 1) {
    const Bf16* u = a.u.row(row);
    const int target = a.targets[row];
    // Before du may lie there.
    const bool inside = target >= 0 && target < a.u.cols;
    const float hit = inside ? read<float>(u[target]) : 0;

    Part mine = no_part();
    for (int first = threadIdx.x; first < packs; first += kAtOnce * blockDim.x) {
      LogitPack pack[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int p = first + i * blockDim.x;
        if (p < packs) pack[i] = load_pack<N>(u + p * N);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int p = first + i * blockDim.x;
        if (p >= packs) continue;
        stage[p] = pack[i];
        take(pack[i], place_in(target, p * N), mine);
      }
    }
    mine = gather(mine);
    if (lane == 0) of_warp[side][warp] = mine;
    __syncthreads();
    const Part all = gather(lane < warps ? of_warp[side][lane] : no_part());
    const RowEnd end = end_row(a, target, all, hit - all.top, share);
    if (threadIdx.x == 0) a.losses[row] = static_cast<double>(end.loss);
    if (!a.du) continue;
    Bf16* du = a.du.row(row);
    if (target == -1) {  // such a row may hold anything
      constexpr float kZeros[N] = {};
      for (int p = threadIdx.x; p < packs; p += blockDim.x) write_pack(du + p * N, kZeros);
      continue;
    }
#pragma unroll 2
    for (int p = threadIdx.x; p < packs; p += blockDim.x) {
      write_gradient(stage[p], all.top, place_in(target, p * N), end, du + p * N);
    }
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
  const Index blocks = std::clamp<Index>(std::min<Index>(room, 2 * kMostThreads / threads), 1, 16);
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
