// The sums of dq of attention's gradient in one kernel (attention_wgmma_joint.cuh), in f32 in
// memory.
//
// They are added up over the tiles of keys in ascending order: before a tile adds to a block of
// queries it waits for its turn, which the tile before it tells. So the bits do not depend on who
// comes first. Tiles walk over queries from the last to the first, all of them alike, so each is a
// few blocks behind the one before and rarely waits. A warpgroup leaves what it has in shared
// memory for a thread that does nothing but wait for turns and have the copy engine add it; another
// warp rounds what the last tile has added to. 64 queries lie as their threads held them: number i
// of thread t at (i / 4, t, i % 4).
#pragma once

#include "norma/kernels/cuda/attention_wgmma_joint_plan.cuh"

namespace norma::kernels::wgmma {

/// By a warpgroup: puts its part of a block's dq where the adder finds it, once it is told.
__device__ inline void put_dq(const float (&dq)[kSide / 2],
                              const JointPlan& plan,
                              int warpgroup,
                              unsigned phase) {
  tile_copy::wait(plan.dq_empty(warpgroup), phase ^ 1U);
  const unsigned to = plan.dq(warpgroup) + threadIdx.x % kWarpgroup * 16;
#pragma unroll
  for (int i = 0; i < kSide / 8; ++i) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"r"(to + static_cast<unsigned>(i) *
                                                                             kWarpgroup * 16),
                 "f"(dq[4 * i]),
                 "f"(dq[4 * i + 1]),
                 "f"(dq[4 * i + 2]),
                 "f"(dq[4 * i + 3])
                 : "memory");
  }
}
__device__ inline void wait_for_turn(const unsigned* turn, int tiles) {
  unsigned now = 0;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];\n" : "=r"(now) : "l"(turn) : "memory");
  } while (now != static_cast<unsigned>(tiles));
}

/// By one thread for each warpgroup: adds what it hands over to 64 queries of dq, in the same order
/// and each in its turn, the first tile sets, and tells the next tile.
__device__ inline void joint_adder(const AttentionShape& s,
                                   const JointWalk& walk,
                                   const JointPlan& plan,
                                   const JointSums& sums,
                                   int warpgroup) {
  const unsigned from = plan.dq(warpgroup);
  unsigned phase = 0;
  for (JointTiles at(walk); at.there(); at.next()) {
    const int tile = at.tile();
    const int blocks = blocks_of_tile(s, tile);
    Index part = (static_cast<Index>(at.head()) + 1) * blocks_of_head(s) * 2 - 2 + warpgroup;
    for (int f = 0; f < blocks; ++f, part -= 2) {
      float* const to = sums.dq + part * kSide * kSide;
      if (tile > 0) {  // looked at before there is something to add: the answer takes a while
        wait_for_turn(sums.turns + part, tile);
        asm volatile("fence.proxy.async;\n" ::: "memory");
      }
      tile_copy::wait(plan.dq_full(warpgroup), phase);
      phase ^= 1U;
      if (tile == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n" ::"l"(to),
                     "r"(from),
                     "n"(JointPlan::kDqBytes)
                     : "memory");
      } else {
        asm volatile(
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n" ::"l"(
                to),
            "r"(from),
            "n"(JointPlan::kDqBytes)
            : "memory");
      }
      tile_copy::close_stores();
      tile_copy::wait_until_read<0>();
      tile_copy::arrive(plan.dq_empty(warpgroup));
      tile_copy::wait_until_stored();
      asm volatile("st.release.gpu.global.u32 [%0], %1;\n" ::"l"(sums.turns + part),
                   "r"(static_cast<unsigned>(tile) + 1)
                   : "memory");
    }
  }
}

/// By a warp: rounds the sums of 64 queries.
__device__ inline void round_rows(const float* sum, Bf16* to, Index stride) {
#pragma unroll 1
  for (int warp = 0; warp < kWarpgroup / 32; ++warp) {
    const float4* from = reinterpret_cast<const float4*>(sum) + warp * 32 + lane();
    float4 held[kSide / 8];
#pragma unroll
    for (int n = 0; n < kSide / 8; ++n) held[n] = __ldcg(from + n * kWarpgroup);
    Bf16* row = to + (warp * 16 + lane() / 4) * stride + 2 * (lane() % 4);
#pragma unroll
    for (int n = 0; n < kSide / 8; ++n) {
      const float upper[2] = {held[n].x, held[n].y};
      const float lower[2] = {held[n].z, held[n].w};
      write_pack(row + 8 * n, upper);
      write_pack(row + 8 * stride + 8 * n, lower);
    }
  }
}

/// By a warp: rounds the sums to which this block's tiles were the last to add.
__device__ inline void joint_rounder(const AttentionBackward<Bf16>& a,
                                     const JointWalk& walk,
                                     const JointSums& sums) {
  const AttentionShape& s = a.shape;
  for (JointTiles at(walk); at.there(); at.next()) {
    const int tile = at.tile();
    if (!s.causal && tile + 1 < walk.tiles) continue;
    const Index h = at.head() % s.heads;
    const Index b = at.head() / s.heads;
    for (int block = blocks_of_head(s) - 1; block >= 0; --block) {
      if (s.causal && block != tile) continue;
      for (int half = 0; half < 2; ++half) {
        const Index part = (static_cast<Index>(at.head()) * blocks_of_head(s) + block) * 2 + half;
        if (lane() == 0) wait_for_turn(sums.turns + part, tile + 1);
        __syncwarp();
        const Index row = b * s.queries + block * kTile + half * kSide;
        round_rows(sums.dq + part * kSide * kSide, a.dq.row(row) + h * kSide, a.dq.stride);
      }
    }
  }
}

}  // namespace norma::kernels::wgmma
