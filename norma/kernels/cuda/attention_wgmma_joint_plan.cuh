// What the parts of attention's gradient in one kernel (attention_wgmma_joint.cuh) share: where
// things lie, and the warp that sends for what they need. A block is a worker of joint_schedule.h.
#pragma once

#include <cstdint>

#include "norma/kernels/cuda/attention_wgmma.cuh"
#include "norma/kernels/joint_schedule.h"

namespace norma::kernels::wgmma {

inline constexpr int kJointOthersRegisters = 56;
inline constexpr int kJointConsumerRegisters = 224;

/// The phase of a barrier of a ring of two that is used for the n-th time, of both together.
__device__ inline unsigned phase_of(int n) { return static_cast<unsigned>(n) / 2 % 2; }

/// What the producer says of a tile beside its rows: to work it out takes divisions, for which
/// those who multiply have no time.
struct alignas(16) JointNote {
  int row;  // of the tile's first key, and the column of its head
  int column;
  int blocks;  // 0: there is no tile any more
  int first;   // of JointTile
};

/// Where things lie in shared memory.
struct JointPlan {
  static constexpr int kStages = 2;
  static constexpr int kOwnBytes = 4 * kSquareBytes;  // k of both warpgroups, then v; twice
  static constexpr int kStageBytes = 4 * kSquareBytes;
  static constexpr int kStagesAt = 2 * kOwnBytes;
  static constexpr int kSlopesAt = kStagesAt + kStages * kStageBytes;
  static constexpr int kDqAt = kSlopesAt + 8 * kSquareBytes;
  static constexpr int kDqBytes = kSide * kSide * static_cast<int>(sizeof(float));
  static constexpr int kNumbers = 2 * kTile + 4;  // lse, delta, the factor and three to be aligned
  static constexpr int kNumbersAt = kDqAt + 2 * kDqBytes;
  static constexpr int kNotesAt = kNumbersAt + kStages * kNumbers * static_cast<int>(sizeof(float));
  static constexpr int kBarriersAt = kNotesAt + 2 * static_cast<int>(sizeof(JointNote));
  static constexpr int kBytes = kBarriersAt + 8 * (2 * kStages + 10);

  unsigned char* memory;
  unsigned base;
  __device__ explicit JointPlan(unsigned char* at) : memory(at), base(shared_address(at)) {}
  __device__ unsigned at(int bytes) const { return base + static_cast<unsigned>(bytes); }
  __device__ unsigned own_k(int slot, int warpgroup) const {
    return at(slot * kOwnBytes + warpgroup * kSquareBytes);
  }
  __device__ unsigned own_v(int slot, int warpgroup) const { return own_k(slot, 2 + warpgroup); }
  /// 128 rows in two squares, one below the other.
  __device__ unsigned q(int stage) const { return at(kStagesAt + stage * kStageBytes); }
  __device__ unsigned dout(int stage) const { return q(stage) + 2 * kSquareBytes; }
  /// dSᵀ of a warpgroup's keys: two squares, of 64 queries each.
  __device__ unsigned slopes(int buffer, int warpgroup) const {
    return at(kSlopesAt + (buffer * 2 + warpgroup) * 2 * kSquareBytes);
  }
  __device__ float* numbers(int stage) const {
    return reinterpret_cast<float*>(memory + kNumbersAt) + stage * kNumbers;
  }
  /// Of a tile's slot: written before own_full(slot).
  __device__ JointNote& note(int slot) const {
    return reinterpret_cast<JointNote*>(memory + kNotesAt)[slot];
  }
  __device__ unsigned dq(int warpgroup) const { return at(kDqAt + warpgroup * kDqBytes); }
  __device__ unsigned full(int stage) const { return at(kBarriersAt + 8 * stage); }
  __device__ unsigned empty(int stage) const { return full(kStages + stage); }
  __device__ unsigned own_full(int slot) const { return full(2 * kStages + slot); }
  __device__ unsigned own_empty(int slot) const { return full(2 * kStages + 2 + slot); }
  __device__ unsigned slopes_full(int buffer) const { return full(2 * kStages + 4 + buffer); }
  __device__ unsigned dq_full(int warpgroup) const { return full(2 * kStages + 6 + warpgroup); }
  __device__ unsigned dq_empty(int warpgroup) const { return full(2 * kStages + 8 + warpgroup); }

  /// By all threads, once.
  __device__ void make_barriers() const {
    if (threadIdx.x == 0) {
      for (int i = 0; i < 2; ++i) {
        tile_copy::make_barrier(full(i), 32);
        tile_copy::make_barrier(empty(i), kConsumerWarps);
        tile_copy::make_barrier(own_full(i), 1);
        tile_copy::make_barrier(own_empty(i), kConsumerWarps);
        tile_copy::make_barrier(slopes_full(i), kConsumerWarps);
        tile_copy::make_barrier(dq_full(i), kConsumerWarps / 2);
        tile_copy::make_barrier(dq_empty(i), 1);
      }
      tile_copy::publish_barriers();
    }
    __syncthreads();
  }
};
static_assert(JointPlan::kStages == 2 && JointPlan::kNotesAt % alignof(JointNote) == 0);

/// dq in f32 (heads of all sequences, 64 queries at a time, 64·64), and how many tiles have added
/// to each.
struct JointSums {
  float* dq;
  unsigned* turns;
};

/// The schedule (joint_schedule.h) in memory.
struct JointWork {
  JointWalk walk;
  const JointTile* tiles;
  const int* begins;
  const std::uint16_t* turns;
};
/// The tiles of this block, one after the other.
class JointWay {
 public:
  __device__ explicit JointWay(const JointWork& work)
      : next_(work.tiles + work.begins[blockIdx.x]),
        end_(work.tiles + work.begins[blockIdx.x + 1]) {}
  __device__ bool there() const { return next_ != end_; }
  __device__ void next() { ++next_; }
  __device__ JointTile tile() const { return *next_; }

 private:
  const JointTile* next_;
  const JointTile* end_;
};

__device__ inline void joint_producer(const Maps& maps,
                                      const AttentionBackward<Bf16>& a,
                                      const JointWork& work,
                                      const JointPlan& plan) {
  const AttentionShape& s = a.shape;
  Place<JointPlan::kStages> place;
  Place<2> own;
  for (JointWay way(work); way.there(); way.next()) {
    const JointTile tile = way.tile();
    const int h = tile.head % static_cast<int>(s.heads);
    const int b = tile.head / static_cast<int>(s.heads);
    const Index numbers_of_head = static_cast<Index>(tile.head) * s.queries;
    const float factor = a.head_factor[h];
    const int blocks = joint_blocks(work.walk, tile.tile);
    tile_copy::wait(plan.own_empty(own.stage), own.phase ^ 1U);
    if (lane() == 0) {
      plan.note(own.stage) = {.row = b * static_cast<int>(s.key_rows) + tile.tile * kTile,
                              .column = h * kSide,
                              .blocks = blocks,
                              .first = tile.first};
      const unsigned full = plan.own_full(own.stage);
      tile_copy::arrive_expecting(full, JointPlan::kOwnBytes);
      for (int w = 0; w < 2; ++w) {
        const int key = tile.tile * kTile + w * kSide;
        tile_copy::copy_head(plan.own_k(own.stage, w), &maps.k, 0, h, key, b, full);
        tile_copy::copy_head(plan.own_v(own.stage, w), &maps.v, 0, h, key, b, full);
      }
    }
    __syncwarp();
    own.next();
    for (int f = 0; f < blocks; ++f, place.next()) {
      const int query = (work.walk.tiles - 1 - joint_place(tile.first, blocks, f)) * kTile;
      float lse[4];
      float delta[4];
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const Index number = numbers_of_head + query + lane() + 32 * r;
        lse[r] = a.lse[number] * kLog2E;
        delta[r] = a.scratch[number] * factor;
      }
      tile_copy::wait(plan.empty(place.stage), place.phase ^ 1U);
      float* numbers = plan.numbers(place.stage);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        numbers[lane() + 32 * r] = lse[r];
        numbers[kTile + lane() + 32 * r] = delta[r];
      }
      if (lane() == 0) numbers[2 * kTile] = factor;
      // Every lane says that its numbers are there.
      const unsigned full = plan.full(place.stage);
      if (lane() == 0) {
        tile_copy::arrive_expecting(full, JointPlan::kStageBytes);
        for (int w = 0; w < 2; ++w) {
          const auto below = static_cast<unsigned>(w * kSquareBytes);
          const int row = query + w * kSide;
          tile_copy::copy_head(plan.q(place.stage) + below, &maps.q, 0, h, row, b, full);
          tile_copy::copy_head(plan.dout(place.stage) + below, &maps.dout, 0, h, row, b, full);
        }
      } else {
        tile_copy::arrive(full);
      }
      __syncwarp();  // a lane two phases behind would wait for ever
    }
  }
  tile_copy::wait(plan.own_empty(own.stage), own.phase ^ 1U);
  if (lane() == 0) {
    plan.note(own.stage).blocks = 0;
    tile_copy::arrive(plan.own_full(own.stage));
  }
}

}  // namespace norma::kernels::wgmma
