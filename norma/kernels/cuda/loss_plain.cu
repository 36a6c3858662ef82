// cross_entropy of rows that fit the shared memory of one block, without a scale. A block has one
// row at a time, reads it once and writes the gradient from what it kept.
//
// Of long rows two fit a multiprocessor. One block takes them all: a row is kept in registers, and
// each thread writes its gradient while it looks at the next row, so that the memory always has
// something to do; the copy engine brings the rows to shared memory ahead. Short rows stay in
// shared memory; several blocks to a multiprocessor read and write in turn, and so do two blocks
// where not even two rows would fit one.
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

/// z of the largest logit, in bits; NaN only where all are.
__device__ inline float largest(const LogitPack& pack) {
  static_assert(sizeof(LogitPack) == sizeof(uint4));
  uint4 pairs;
  std::memcpy(&pairs, &pack, sizeof pairs);
  const unsigned two = larger_pair(larger_pair(pairs.x, pairs.y), larger_pair(pairs.z, pairs.w));
  return kLog2E * fmaxf(low_of(two), high_of(two));
}

/// Takes a pack into the part of its thread; the target's place is left out of the sum.
__device__ inline void take(const LogitPack& pack, unsigned here, Part& part) {
  float z[N];
  unpack(pack, z);
  const float top = fmaxf(part.top, largest(pack));  // NaN is passed over, the sum meets it
  const float from = top == -INFINITY ? 0 : top;
  float sums[2] = {part.others * quick_exp2(part.top - from), 0};
  if (here < N || is_coarse(from)) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      z[k] = k == static_cast<int>(here) ? -INFINITY : distance(kLog2E, z[k], from);
    }
  } else {
#pragma unroll
    for (int k = 0; k < N; ++k) z[k] = fmaf(kLog2E, z[k], -from);
  }
#pragma unroll
  for (int k = 0; k < N; ++k) sums[k % 2] += quick_exp2(z[k]);
  part = {top, sums[0] + sums[1]};
}

/// What a row's gradient is made with.
struct RowSlope {
  RowEnd end;
  float top;
  float from;  // grow·2^(z − top) is 2^(z − from)
  bool near;   // whether `from` has bits enough for that, and there is one
};
__device__ inline RowSlope slope_of(const RowEnd& end, float top) {
  constexpr float kFar = 1 << 10;
  const float from = top - quick_log2(end.grow);
  return {end, top, from, fabsf(from) < kFar};
}

__device__ inline void write_gradient(const LogitPack& pack,
                                      const RowSlope& row,
                                      unsigned here,
                                      Bf16* du) {
  float dz[N];
  unpack(pack, dz);
  if (here < N || !row.near) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float slope = row.end.grow * quick_exp2(distance(kLog2E, dz[k], row.top));
      dz[k] = k == static_cast<int>(here) ? row.end.hit : slope;
    }
  } else {
#pragma unroll
    for (int k = 0; k < N; ++k) dz[k] = quick_exp2(fmaf(kLog2E, dz[k], -row.from));
  }
  write_pack(du, dz);
}

__global__ void __launch_bounds__(kMostThreads, 2) plain_kernel(QuickLoss a) {
  unsigned char* const memory = block_memory();
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
    const RowEnd end = end_row(
        {a.u.cols, a.z_loss}, target, all, distance(kLog2E, hit, all.top), share, warp == 0);
    if (threadIdx.x == 0) a.losses[row] = static_cast<double>(end.loss);
    if (!a.du) continue;
    Bf16* du = a.du.row(row);
    const RowSlope slope = slope_of(end, all.top);
    if (target == -1) {  // such a row may hold anything
      constexpr float kZeros[N] = {};
      for (int p = threadIdx.x; p < packs; p += blockDim.x) write_pack(du + p * N, kZeros);
      continue;
    }
#pragma unroll 2
    for (int p = threadIdx.x; p < packs; p += blockDim.x) {
      write_gradient(stage[p], slope, place_in(target, p * N), du + p * N);
    }
  }
}

__global__ void __launch_bounds__(kAheadThreads, 1) ahead_kernel(QuickLoss a) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  using namespace tile_copy;
  unsigned char* const memory = block_memory();
  __shared__ Part of_warp[2][kAheadThreads / 32];
  __shared__ std::uint64_t barriers[2];
  const int packs = static_cast<int>(a.u.cols) / N;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int warps = blockDim.x / 32;
  const auto share = static_cast<float>(1 / *a.tokens);
  const auto bytes = static_cast<unsigned>(packs) * static_cast<unsigned>(sizeof(LogitPack));
  const auto rows = static_cast<int>((a.u.rows - blockIdx.x + gridDim.x - 1) / gridDim.x);
  const auto row = [&](int i) { return blockIdx.x + static_cast<Index>(i) * gridDim.x; };
  const auto come = [&](int i) { return shared_address(&barriers[i % 2]); };
  const auto stage = [&](int i) { return reinterpret_cast<LogitPack*>(memory + i % 2 * bytes); };
  const auto fetch = [&](int i) {  // one thread
    if (i >= rows) return;
    arrive_expecting(come(i), bytes);
    copy_span(shared_address(stage(i)), a.u.row(row(i)), bytes, come(i));
  };

  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) make_barrier(come(i), 1);
    publish_barriers();
    for (int i = 0; i < 2; ++i) fetch(i);
  }
  __syncthreads();
  // Of row i: what this thread keeps of it, and has seen.
  LogitPack kept[kKept];
  Part mine = no_part();
  int target = -1;
  float hit = 0;
  for (int i = -1; i < rows; ++i) {
    const bool has_row = i >= 0;
    const bool has_next = i + 1 < rows;
    const int next_target = has_next ? a.targets[row(i + 1)] : -1;
    RowSlope slope{};
    if (has_row) {
      mine = gather(mine);
      if (lane == 0) of_warp[i % 2][warp] = mine;
      __syncthreads();  // also: everyone has what it keeps
      if (threadIdx.x == 0) fetch(i + 2);
      const Part all = gather(lane < warps ? of_warp[i % 2][lane] : no_part());
      const RowEnd end = end_row(
          {a.u.cols, a.z_loss}, target, all, distance(kLog2E, hit, all.top), share, warp == 0);
      if (threadIdx.x == 0) a.losses[row(i)] = static_cast<double>(end.loss);
      slope = slope_of(end, all.top);
    }
    const LogitPack* const next = stage(i + 1);
    if (has_next) {
      wait(come(i + 1), static_cast<unsigned>(i + 1) / 2 % 2);
      const bool inside = next_target >= 0 && next_target < a.u.cols;
      hit = inside ? read<float>(next[next_target / N].at[next_target % N]) : 0;
    }
    mine = no_part();
    Bf16* const du = has_row && a.du ? a.du.row(row(i)) : nullptr;
#pragma unroll
    for (int k = 0; k < kKept; ++k) {
      const int p = static_cast<int>(threadIdx.x + k * blockDim.x);
      if (p >= packs) continue;
      if (du != nullptr && target == -1) {  // such a row may hold anything
        constexpr float kZeros[N] = {};
        write_pack(du + p * N, kZeros);
      } else if (du != nullptr) {
        write_gradient(kept[k], slope, place_in(target, p * N), du + p * N);
      }
      if (!has_next) continue;
      kept[k] = next[p];
      take(kept[k], place_in(next_target, p * N), mine);
    }
    target = next_target;
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
