// What the kernels of attention on Hopper share. A block stays on its multiprocessor and walks over
// tiles of 128 rows (of keys, or of queries), 64 for each of two warpgroups; a third warpgroup has
// one warp that sends for what they need: the tile's own rows, which stay, and blocks of rows of
// the other side, which pass through a ring of stages. For the gradients of keys and of queries by
// themselves they have 64 rows; the joint gradient (attention_wgmma_joint_plan.cuh) and attention
// itself (attention_wgmma_forward.cuh) have plans of their own.
// Rows of a tile and of a block begin at multiples of 64, so that a causal mask cuts only blocks on
// the diagonal, all of them in the same way.
#pragma once

#include <algorithm>

#include "norma/device/device.h"
#include "norma/kernels/cuda/attention_rows.cuh"
#include "norma/kernels/cuda/quick_math.cuh"
#include "norma/kernels/cuda/tile_copy.cuh"
#include "norma/kernels/cuda/wgmma.cuh"

namespace norma::kernels::wgmma {

using tile_copy::Place;

inline constexpr int kThreads = 3 * kWarpgroup;
inline constexpr int kTile = 2 * kSide;
inline constexpr int kConsumerWarps = 8;
// A block begins with 168 for each of its threads; what the producer gives up, the others take. The
// three must not exceed 3 * 168, or the block waits for ever.
inline constexpr int kProducerRegisters = 24;
inline constexpr int kConsumerRegisters = 240;

struct Maps {
  CUtensorMap q, k, v, dout;
};

/// Where a block's shared memory begins: at a multiple of 1024.
__device__ inline unsigned aligned_address(const unsigned char* memory) {
  return (shared_address(memory) + 1023) & ~1023U;
}

/// For each stage of the ring whether it is full and whether it is empty, and the same for each
/// slot of a tile's own rows.
template <int kCount, int kOwnCount = 1>
struct Barriers {
  static constexpr int kStages = kCount;
  static constexpr int kSlots = kOwnCount;
  static constexpr int kBarriersBytes = 8 * 2 * (kStages + kSlots);
  unsigned barriers;
  __device__ unsigned full(int stage) const { return barriers + static_cast<unsigned>(8 * stage); }
  __device__ unsigned empty(int stage) const { return full(kStages + stage); }
  __device__ unsigned own_full(int slot = 0) const { return full(2 * (kStages + slot)); }
  __device__ unsigned own_empty(int slot = 0) const { return full(2 * (kStages + slot) + 1); }

  /// By all threads, once. `senders`: lanes that arrive when a stage is filled.
  __device__ void make_barriers(int senders) const {
    if (threadIdx.x == 0) {
      for (int i = 0; i < kStages; ++i) {
        tile_copy::make_barrier(full(i), senders);
        tile_copy::make_barrier(empty(i), kConsumerWarps);
      }
      for (int i = 0; i < kSlots; ++i) {
        tile_copy::make_barrier(own_full(i), 1);
        tile_copy::make_barrier(own_empty(i), kConsumerWarps);
      }
      tile_copy::publish_barriers();
    }
    __syncthreads();
  }
};

/// Where things lie in shared memory. `near` and `far` are the two matrices of a side: q and dout,
/// or k and v.
template <int kWidth>
struct Plan : Barriers<kWidth == 64 ? 6 : 4> {
  using Ring = Barriers<kWidth == 64 ? 6 : 4>;
  static constexpr int kRowsBytes = kWidth / kSide * kSquareBytes;  // 64 rows of one matrix
  static constexpr int kStageBytes = 2 * kRowsBytes;
  static constexpr int kOwnBytes = 4 * kRowsBytes;
  static constexpr int kNumbers = 2 * kSide + 4;  // lse, delta, the factor and three to be aligned
  static constexpr int kNumbersAt = kOwnBytes + Ring::kStages * kStageBytes;
  static constexpr int kBarriersAt =
      kNumbersAt + Ring::kStages * kNumbers * static_cast<int>(sizeof(float));
  static constexpr int kBytes = 1024 + kBarriersAt + Ring::kBarriersBytes;
  // Whether a warpgroup's rows of a tile of keys are held in registers, as those of queries always
  // are: there products read them without shared memory, which is busy most of the time as it is.
  static constexpr bool kKeysHeld = kWidth == 64;

  unsigned base;
  __device__ explicit Plan(const unsigned char* memory)
      : Ring{aligned_address(memory) + kBarriersAt}, base(aligned_address(memory)) {}
  __device__ unsigned own_near(int warpgroup) const {
    return base + static_cast<unsigned>(warpgroup * kRowsBytes);
  }
  __device__ unsigned own_far(int warpgroup) const { return own_near(2 + warpgroup); }
  __device__ unsigned near(int stage) const {
    return base + static_cast<unsigned>(kOwnBytes + stage * kStageBytes);
  }
  __device__ unsigned far(int stage) const { return near(stage) + kRowsBytes; }
  /// In `memory`: this many floats for each stage.
  __device__ float* numbers(unsigned char* memory, int stage) const {
    unsigned char* aligned = memory + (base - shared_address(memory));
    return reinterpret_cast<float*>(aligned + kNumbersAt) + stage * kNumbers;
  }
};

/// The tiles of all heads. Under a causal mask a tile is taken together with the one that sees as
/// much less as this one sees more, so that all blocks have the same to do.
struct Walk {
  int tiles;  // of a head
  int parts;  // of a head: tiles, or pairs of them
  int items;  // parts of all heads
  bool paired;
};
inline Walk walk_of(Index heads, Index rows, bool causal) {
  const Index tiles = (rows + kTile - 1) / kTile;
  const Index parts = causal ? (tiles + 1) / 2 : tiles;
  return {.tiles = static_cast<int>(tiles),
          .parts = static_cast<int>(parts),
          .items = static_cast<int>(heads * parts),
          .paired = causal};
}
/// As many blocks as fit at a time, or fewer where there is less to do.
inline Index blocks_of(const Walk& walk) {
  return std::min<Index>(walk.items, device::multiprocessors());
}
/// Whether sizes and rules are those of these kernels, and the GPU runs them.
inline bool suits(const AttentionShape& s) {
  const bool ruled = s.head_width % 8 == 0 && s.head_width <= 128 && s.softcap == 0 &&
                     !s.log_length && s.lengths == nullptr && s.queries == s.keys &&
                     s.keys == s.key_rows && s.queries > 0 && s.batch > 0;
  // Tiles, rows and blocks are counted in 32 bits.
  const bool counted = s.batch * s.queries < Index{1} << 30 &&
                       s.batch * s.heads * (s.queries + kTile) < Index{1} << 31;
  return ruled && counted && device::runs_hopper_kernels();
}

/// The tiles of one block, one after the other.
class Tiles {
 public:
  __device__ explicit Tiles(const Walk& walk) : walk_(walk), item_(static_cast<int>(blockIdx.x)) {}
  __device__ bool there() const { return item_ < walk_.items; }
  __device__ int head() const { return item_ / walk_.parts; }
  __device__ int tile() const {
    const int part = item_ % walk_.parts;
    return second_ ? walk_.tiles - 1 - part : part;
  }
  __device__ void next() {
    const int part = item_ % walk_.parts;
    second_ = !second_ && walk_.paired && walk_.tiles - 1 - part != part;
    if (!second_) item_ += static_cast<int>(gridDim.x);
  }

 private:
  Walk walk_;
  int item_;
  bool second_ = false;
};

/// By all lanes of a consumer's warp: it has read everything that the barrier guards.
__device__ inline void release(unsigned barrier) {
  __syncwarp();
  if (lane() == 0) tile_copy::arrive(barrier);
}

/// 64 rows of one head, with zeros up to kWidth.
template <int kWidth>
__device__ inline void copy_rows(
    unsigned to, const CUtensorMap* from, int head, int row, int b, unsigned barrier) {
#pragma unroll
  for (int c = 0; c < kWidth / kSide; ++c) {
    tile_copy::copy_head(
        to + static_cast<unsigned>(c * kSquareBytes), from, c * kSide, head, row, b, barrier);
  }
}
/// A tile's own rows of both matrices; by one lane.
template <int kWidth>
__device__ inline void copy_own(const Plan<kWidth>& plan,
                                const CUtensorMap* near,
                                const CUtensorMap* far,
                                int head,
                                int row,
                                int b) {
  tile_copy::arrive_expecting(plan.own_full(), Plan<kWidth>::kOwnBytes);
#pragma unroll
  for (int w = 0; w < 2; ++w) {
    copy_rows<kWidth>(plan.own_near(w), near, head, row + w * kSide, b, plan.own_full());
    copy_rows<kWidth>(plan.own_far(w), far, head, row + w * kSide, b, plan.own_full());
  }
}
/// A block's rows of both matrices; by one lane.
template <int kWidth>
__device__ inline void copy_block(const Plan<kWidth>& plan,
                                  int stage,
                                  const CUtensorMap* near,
                                  const CUtensorMap* far,
                                  int head,
                                  int row,
                                  int b) {
  tile_copy::arrive_expecting(plan.full(stage), Plan<kWidth>::kStageBytes);
  copy_rows<kWidth>(plan.near(stage), near, head, row, b, plan.full(stage));
  copy_rows<kWidth>(plan.far(stage), far, head, row, b, plan.full(stage));
}

/// out = own·blockᵀ, with own(k) for the k-th step of own's depth and the first rows of a block of
/// kRows, which is an address or a descriptor.
template <int kWidth, int kRows, int kCount, class Own, class Block>
__device__ inline void multiply_steps(float (&out)[kCount], const Own& own, Block block) {
  multiply<false>(out, own(0), rows_step<kRows>(block, 0));
#pragma unroll
  for (int k = 1; k < kWidth / 16; ++k) {
    multiply_add<false>(out, own(k), rows_step<kRows>(block, k));
  }
}
/// out = own·blockᵀ from shared memory.
template <int kWidth, int kCount>
__device__ inline void multiply_rows(float (&out)[kCount], unsigned own, unsigned block) {
  multiply_steps<kWidth, 2 * kCount>(
      out, [own](int k) { return rows_step(own, k); }, block);
}
/// out = own·blockᵀ: from registers where kHeld, else from shared memory.
template <int kWidth, bool kHeld>
__device__ inline void multiply_rows(float (&out)[kSide / 2],
                                     const unsigned (&held)[kWidth / 16][4],
                                     unsigned own,
                                     unsigned block) {
  if constexpr (kHeld) {
    const auto step = [&held](int k) -> const unsigned(&)[4] { return held[k]; };
    multiply_steps<kWidth, kSide>(out, step, block);
  } else {
    multiply_rows<kWidth>(out, own, block);
  }
}
/// out += left·block, left in registers; block is an address or a descriptor.
template <int kWidth, int kSteps, class Block>
__device__ inline void add_product(float (&out)[kWidth / 2],
                                   const unsigned (&left)[kSteps][4],
                                   Block block) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k) multiply_add<true>(out, left[k], turned_step<kWidth>(block, k));
}

/// Sets or adds the warpgroup's rows [0, count) of a head, each times the factor.
template <int kWidth>
__device__ inline void store_rows(Rows<Bf16> to,
                                  Index first,
                                  int count,
                                  int head,
                                  int width,
                                  Into into,
                                  float factor,
                                  const float (&values)[kWidth / 2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (row_of(r) >= count) continue;
    Bf16* row = to.row(first + row_of(r)) + head * width;
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
      if (8 * n >= width) break;
      const float both[2] = {factor * values[4 * n + 2 * r], factor * values[4 * n + 2 * r + 1]};
      put_pack(row + column_of(n), both, into);
    }
  }
}

}  // namespace norma::kernels::wgmma
