// cross_entropy of rows that fit the shared memory of one block, without a scale. A block has one
// row at a time, reads it once and writes the gradient from what it kept.
//
// Of long rows two fit a multiprocessor. One block takes them all: a row is kept in registers while
// its softmax is taken and its gradient written, and the copy engine brings the next two rows to
// shared memory meanwhile. Short rows stay in shared memory; several blocks to a multiprocessor
// read and write in turn, and so do two blocks where not even two rows would fit one.
#include <algorithm>

#include "norma/kernels/cuda/cluster.cuh"
#include "norma/kernels/cuda/loss_quick.cuh"
#include "norma/kernels/cuda/tile_copy.cuh"

namespace norma::kernels {

namespace {

constexpr int N = kPack<Bf16>;
constexpr int kMostThreads = 768;
constexpr int kAtOnce = 3;  // packs that a thread has on their way
constexpr std::size_t kMostShared = std::size_t{220} << 10;

// Of the kernel that fetches ahead. A thread keeps up to kKept packs of a row.
constexpr int kAheadThreads = 1024;
constexpr int kKept = 7;

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
    const RowEnd end = end_row(a, target, all, hit - all.top, share, warp == 0);
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

__global__ void __launch_bounds__(kAheadThreads, 1) ahead_kernel(QuickLoss a) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  using namespace tile_copy;
  extern __shared__ __align__(32) unsigned char memory[];
  __shared__ Part of_warp[2][kAheadThreads / 32];
  __shared__ std::uint64_t barriers[2];
  const int packs = static_cast<int>(a.u.cols) / N;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int warps = blockDim.x / 32;
  const auto share = static_cast<float>(1 / *a.tokens);
  const auto bytes = static_cast<unsigned>(packs) * static_cast<unsigned>(sizeof(LogitPack));
  const auto come = [&](int side) { return shared_address(&barriers[side]); };
  const auto fetch = [&](Index row, int side) {  // one thread
    if (row >= a.u.rows) return;
    arrive_expecting(come(side), bytes);
    copy_span(shared_address(memory) + static_cast<unsigned>(side) * bytes,
              a.u.row(row),
              bytes,
              come(side));
  };

  if (threadIdx.x == 0) {
    for (int side = 0; side < 2; ++side) make_barrier(come(side), 1);
    publish_barriers();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int side = 0; side < 2; ++side) fetch(blockIdx.x + side * gridDim.x, side);
  }
  int next_target = a.targets[blockIdx.x];
  int side = 0;
  unsigned phase = 0;
  for (Index row = blockIdx.x; row < a.u.rows; row += gridDim.x) {
    const int target = next_target;
    if (row + gridDim.x < a.u.rows) next_target = a.targets[row + gridDim.x];
    const auto* const stage =
        reinterpret_cast<const LogitPack*>(memory + static_cast<std::size_t>(side) * bytes);
    wait(come(side), phase);
    const bool inside = target >= 0 && target < a.u.cols;
    const float hit = inside ? read<float>(stage[target / N].at[target % N]) : 0;
    LogitPack kept[kKept];
    Part mine = no_part();
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      const int p = static_cast<int>(threadIdx.x + i * blockDim.x);
      if (p >= packs) continue;
      kept[i] = stage[p];
      take(kept[i], place_in(target, p * N), mine);
    }
    mine = gather(mine);
    if (lane == 0) of_warp[side][warp] = mine;
    __syncthreads();  // also: everyone has what it keeps
    if (threadIdx.x == 0) fetch(row + 2 * gridDim.x, side);
    const Part all = gather(lane < warps ? of_warp[side][lane] : no_part());
    const RowEnd end = end_row(a, target, all, hit - all.top, share, warp == 0);
    if (threadIdx.x == 0) a.losses[row] = static_cast<double>(end.loss);
    phase ^= static_cast<unsigned>(side);
    side ^= 1;
    if (!a.du) continue;
    Bf16* const du = a.du.row(row);
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      const int p = static_cast<int>(threadIdx.x + i * blockDim.x);
      if (p >= packs) continue;
      if (target == -1) {  // such a row may hold anything
        constexpr float kZeros[N] = {};
        write_pack(du + p * N, kZeros);
      } else {
        write_gradient(kept[i], all.top, place_in(target, p * N), end, du + p * N);
      }
    }
  }
#else
  __trap();  // has_clusters() says no there
#endif
}

/// So many that all have about as much to do.
int even_threads(int packs, int most) {
  const int turns = (packs + most - 1) / most;
  return ((packs + turns - 1) / turns + 31) / 32 * 32;
}

/// Long rows of which two fit the shared memory.
bool run_ahead(const QuickLoss& a) {
  constexpr int kShort = 22000;  // where rows of five blocks fit a multiprocessor
  const std::size_t shared = 2 * static_cast<std::size_t>(a.u.cols) * sizeof(Bf16);
  const auto packs = static_cast<int>(a.u.cols / N);
  if (!has_clusters() || a.u.cols < kShort || shared > kMostShared ||
      packs > kAheadThreads * kKept) {
    return false;
  }
  launch_clusters("cross entropy",
                  static_cast<unsigned>(std::min<Index>(a.u.rows, device::multiprocessors())),
                  1,
                  even_threads(packs, kAheadThreads),
                  shared,
                  ahead_kernel,
                  a);
  return true;
}

}  // namespace

bool run_plain(const QuickLoss& a) {
  if (run_ahead(a)) return true;
  const std::size_t shared = static_cast<std::size_t>(a.u.cols) * sizeof(Bf16);
  if (shared > kMostShared) return false;
  const auto packs = static_cast<int>(a.u.cols / N);
  const int threads = even_threads(packs, kMostThreads);
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
