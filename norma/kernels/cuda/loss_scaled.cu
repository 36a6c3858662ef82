// cross_entropy with a scale per class. A cluster of blocks takes the rows of a chunk, a few at a
// time; each block has its share of the columns, the same for all rows. So the logits are read and
// written once, and what belongs to a column (its scale, the sum that makes up dscale) stays in the
// registers of the thread that has the column.
#include <algorithm>

#include <cuda_pipeline.h>

#include "norma/kernels/cuda/cluster.cuh"
#include "norma/kernels/cuda/column_sums.cuh"
#include "norma/kernels/cuda/loss_quick.cuh"

namespace norma::kernels {

namespace {

constexpr int N = kPack<Bf16>;
constexpr int R = 4;      // rows at a time
constexpr int kEach = 2;  // packs of a thread
constexpr int kMostThreads = 416;
constexpr int kMostWarps = kMostThreads / 32;
constexpr int kMostPacks = kMostThreads * kEach;  // of a block
static_assert(R * kMostClusterBlocks == 32, "a lane for each row and block");
static_assert(kMostWarps <= 16, "two warps for each lane and row");

// From here on the last bit of z is worth 1/2 or more. Then all z are taken as they are rounded:
// else the largest could lie far beside itself, and exp would overflow or vanish.
constexpr float kCoarse = 1 << 22;

/// z − from. Where it matters the product is not rounded before the difference, so that large
/// logits that lie close together keep their distance.
__device__ inline float distance(float f, float u, float from) {
  return fabsf(from) < kCoarse ? fmaf(f, u, -from) : __fmul_rn(f, u) - from;
}

struct Plan {
  Index chunk_rows;
  int blocks;  // of a cluster
  int packs;   // of a block, for each row
};

/// The columns of one thread.
struct Own {
  float factors[kEach][N];
  float sums[kEach][N];  // of dscale
  int packs;             // of this block that there are

  static __device__ int pack(int j) { return static_cast<int>(threadIdx.x + j * blockDim.x); }
  __device__ bool has(int j) const { return pack(j) < packs; }

  /// `target` and `logits` count from the block's first class.
  __device__ Part look(const Bf16* logits, int target) const {
    Part part = no_part();
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (!has(j)) continue;
      float u[N];
      read_pack(logits + pack(j) * N, u);
#pragma unroll
      for (int k = 0; k < N; ++k) part.top = fmaxf(part.top, __fmul_rn(factors[j][k], u[k]));
    }
    asm volatile("" ::: "memory");  // the logits are read again: there is no register to keep them
    // Classes that were ruled out have z = −inf; a thread may see only such.
    const float from = part.top == -INFINITY ? 0 : part.top;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (!has(j)) continue;
      float u[N];
      read_pack(logits + pack(j) * N, u);
#pragma unroll
      for (int k = 0; k < N; ++k) u[k] = distance(factors[j][k], u[k], from);
      const unsigned here = place_in(target, pack(j) * N);
      if (here < N) {
#pragma unroll
        for (int k = 0; k < N; ++k) {
          if (k == static_cast<int>(here)) u[k] = -INFINITY;
        }
      }
#pragma unroll
      for (int k = 0; k < N; ++k) part.others += quick_exp(u[k]);
    }
    return part;
  }
  __device__ void write_gradient(
      const Bf16* logits, Bf16* du, int target, float top, float grow, float hit) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (!has(j)) continue;
      float u[N];
      read_pack(logits + pack(j) * N, u);
      float dz[N];
#pragma unroll
      for (int k = 0; k < N; ++k) dz[k] = grow * quick_exp(distance(factors[j][k], u[k], top));
      const unsigned here = place_in(target, pack(j) * N);
      if (here < N) {
#pragma unroll
        for (int k = 0; k < N; ++k) {
          if (k == static_cast<int>(here)) dz[k] = hit;
        }
      }
#pragma unroll
      for (int k = 0; k < N; ++k) {
        sums[j][k] = fmaf(dz[k], u[k], sums[j][k]);
        dz[k] *= factors[j][k];
      }
      write_pack(du + pack(j) * N, dz);
    }
  }
  __device__ void write_zeros(Bf16* du) const {
    constexpr float kZeros[N] = {};
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (has(j)) write_pack(du + pack(j) * N, kZeros);
    }
  }
};

__global__ void __launch_bounds__(kMostThreads, 2) scaled_kernel(QuickLoss a, Plan plan) {
  extern __shared__ __align__(32) unsigned char memory[];
  __shared__ Part of_warp[R][kMostWarps];
  // By turns, so that a block ahead of the others does not overwrite what they still read.
  __shared__ Part of_block[2][kMostClusterBlocks][R];

  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int warps = blockDim.x / 32;
  const int rank = static_cast<int>(blockIdx.x) % plan.blocks;
  const Index chunk = blockIdx.x / static_cast<unsigned>(plan.blocks);
  const Index begin = chunk * plan.chunk_rows;
  const Index end = begin + plan.chunk_rows < a.u.rows ? begin + plan.chunk_rows : a.u.rows;
  const int width = plan.packs * N;
  const int offset = rank * width;                      // this block's first class
  Bf16* const stage = reinterpret_cast<Bf16*>(memory);  // (2, R, width)
  const auto share = static_cast<float>(1 / *a.tokens);
  const auto mult = static_cast<float>(a.scale_mult);

  Own own{};
  own.packs = max(0, min(plan.packs, static_cast<int>(a.u.cols) / N - rank * plan.packs));
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    if (!own.has(j)) continue;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      own.factors[j][k] = mult * a.scale[offset + Own::pack(j) * N + k];
    }
  }
  const auto fetch = [&](Index row, int side) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (!own.has(j)) continue;
      const int c = Own::pack(j) * N;
#pragma unroll
      for (int r = 0; r < R; ++r) {
        if (row + r >= end) continue;
        __pipeline_memcpy_async(
            stage + (side * R + r) * width + c, a.u.row(row + r) + offset + c, N * sizeof(Bf16));
      }
    }
    __pipeline_commit();
  };
  // A lane knows the target of one row, and what concerns it.
  const auto target_of = [&](Index row) {
    return row + lane % R < end ? a.targets[row + lane % R] : -1;
  };

  if (plan.blocks > 1) cluster_sync(plan.blocks);  // all have begun: their memory may be written
  fetch(begin, 0);
  int next_target = target_of(begin);
  int side = 0;
  for (Index row = begin; row < end; row += R, side ^= 1) {
    const int target = next_target;
    next_target = target_of(row + R);
    // Before du may lie there.
    const bool inside = target >= 0 && target < a.u.cols;
    const float hit_u = inside ? read<float>(a.u.row(row + lane % R)[target]) : 0;
    const float hit_f = inside ? mult * a.scale[target] : 0;
    fetch(row + R, side ^ 1);
    __pipeline_wait_prior(1);  // a thread reads what it fetched itself

    const Bf16* const logits = stage + side * R * width;
#pragma unroll 1  // side by side, rows would not leave registers for what stays
    for (int r = 0; r < R; ++r) {
      const int there = __shfl_sync(0xFFFFFFFFU, target, r) - offset;
      const Part part = gather(row + r < end ? own.look(logits + r * width, there) : no_part());
      if (lane == 0) of_warp[r][warp] = part;
    }
    __syncthreads();
    if (warp == 0) {
      const int w = lane / R;
      const Part low = w < warps ? of_warp[lane % R][w] : no_part();
      const Part high = w + 8 < warps ? of_warp[lane % R][w + 8] : no_part();
      const float top = fmaxf(low.top, high.top);
      const auto share_of = [&](const Part& p) {
        return p.top == top ? p.others : p.others * quick_exp(p.top - top);
      };
      const Part all = gather<R>({top, share_of(low) + share_of(high)});
      if (w < plan.blocks) *in_block(&of_block[side][rank][lane % R], plan.blocks, w) = all;
    }
    cluster_sync(plan.blocks);
    const Part all =
        gather<R>(lane / R < plan.blocks ? of_block[side][lane / R][lane % R] : no_part());
    const RowEnd ends = end_row(a, target, all, distance(hit_f, hit_u, all.top), share, true);
    if (rank == 0 && threadIdx.x < R && row + lane < end) {
      a.losses[row + lane] = static_cast<double>(ends.loss);
    }
    if (!a.du) continue;
#pragma unroll 1
    for (int r = 0; r < R; ++r) {
      const int of_row = __shfl_sync(0xFFFFFFFFU, target, r);
      const float top = __shfl_sync(0xFFFFFFFFU, all.top, r);
      const float grow = __shfl_sync(0xFFFFFFFFU, ends.grow, r);
      const float hit = __shfl_sync(0xFFFFFFFFU, ends.hit, r);
      if (row + r >= end) continue;
      Bf16* const du = a.du.row(row + r) + offset;
      if (of_row == -1) {  // such a row may hold anything
        own.write_zeros(du);
      } else {
        own.write_gradient(logits + r * width, du, of_row - offset, top, grow, hit);
      }
    }
  }
  if (a.dscale == nullptr) return;
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    if (own.has(j)) {
      write_pack(a.partials + chunk * a.u.cols + offset + Own::pack(j) * N, own.sums[j]);
    }
  }
}

}  // namespace

bool run_scaled(const QuickLoss& a) {
  const auto packs_of_row = static_cast<int>(a.u.cols / N);
  Plan plan{.chunk_rows = 0, .blocks = 1, .packs = packs_of_row};
  while (has_clusters() && plan.blocks < kMostClusterBlocks && plan.packs > kMostPacks) {
    plan.blocks *= 2;
    plan.packs = (packs_of_row + plan.blocks - 1) / plan.blocks;
  }
  if (plan.packs > kMostPacks) return false;
  // With sums over rows there is a partial sum for every chunk; without, more chunks than fit the
  // GPU at once even out its end.
  const Index most = a.dscale != nullptr ? 256 : std::max(256, 4096 / plan.blocks);
  const RowChunks chunks(a.u.rows, most);
  plan.chunk_rows = chunks.size;
  launch_clusters("cross entropy",
                  static_cast<unsigned>(chunks.count * plan.blocks),
                  plan.blocks,
                  ((plan.packs + kEach - 1) / kEach + 31) / 32 * 32,
                  static_cast<std::size_t>(2 * R * plan.packs * N) * sizeof(Bf16),
                  scaled_kernel,
                  a,
                  plan);
  if (a.dscale != nullptr) {
    finish_columns(a.partials, chunks.count, a.u.cols, a.dscale, Into::set, a.scale_mult);
  }
  return true;
}

}  // namespace norma::kernels
