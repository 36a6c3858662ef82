// The sums of dq of attention's gradient in one kernel (attention_wgmma_joint.cuh), in f32 in
// memory.
//
// Before a tile of keys adds to a block of queries it waits for its turn (joint_schedule.h), which
// the tile before it tells. A warpgroup leaves what it has in shared memory for a warp that does
// nothing but wait for turns and have the copy engine add it; another warp rounds the sums that are
// complete. 64 queries lie as their threads held them: number i of thread t at (i / 4, t, i % 4).
#pragma once

#include "norma/kernels/cuda/attention_wgmma_joint_plan.cuh"

namespace norma::kernels::wgmma {

/// By a warpgroup: puts its part of a step's dq where the adder finds it, once it is told.
__device__ inline void put_dq(const float (&dq)[kSide / 2],
                              const JointPlan& plan,
                              int warpgroup,
                              int step) {
  tile_copy::wait(plan.dq_empty(warpgroup), ~static_cast<unsigned>(step) & 1U);
  const unsigned to = plan.dq(warpgroup) + threadIdx.x % kWarpgroup * 16;
#pragma unroll
  for (int i = 0; i < kSide / 8; ++i) {
    tile_copy::put_shared(to + static_cast<unsigned>(i) * kWarpgroup * 16,
                          {dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]});
  }
}
__device__ inline void wait_for_turn(const unsigned* turn, unsigned tiles) {
  tile_copy::wait_until([&] { return tile_copy::is_told(turn, tiles); });
}
/// The same for who has time: looks one after the other would slow down those who add and tell.
__device__ inline void wait_at_ease(const unsigned* turn, unsigned tiles) {
  tile_copy::wait_until([&] {
    const bool told = tile_copy::is_told(turn, tiles);
    if (!told) tile_copy::pause();
    return told;
  });
}

/// By a warp for each warpgroup, of which one lane is enough: adds what it hands over to 64 queries
/// of dq, in the same order and each in its turn, the first sets, and tells the next.
__device__ inline void joint_adder(const JointWork& work,
                                   const JointPlan& plan,
                                   const JointSums& sums,
                                   int warpgroup) {
  if (lane() != 0) return;
  const unsigned from = plan.dq(warpgroup);
  unsigned step = 0;
  for (JointWay way(work); way.there(); way.next()) {
    const JointTile tile = way.tile();
    const int blocks = joint_blocks(work.walk, tile.tile);
    const Index last = (static_cast<Index>(tile.head) + 1) * work.walk.tiles - 1;
    const std::uint16_t* const turns = work.turns + tile.turns_at;
    unsigned turn = turns[0];
    for (int visit = 0; visit < blocks; ++visit, ++step) {
      const Index part = (last - joint_place(tile.first, blocks, visit)) * 2 + warpgroup;
      float* const to = sums.dq + part * kSide * kSide;
      unsigned* const told = sums.turns + part;
      if (turn > 0) {  // looked at before there is something to add: the answer takes a while
        wait_for_turn(told, turn);
        tile_copy::show_memory_to_engine();
      }
      tile_copy::wait(plan.dq_full(warpgroup), step & 1U);
      if (turn == 0) {
        tile_copy::store_span<JointPlan::kDqBytes>(to, from);
      } else {
        tile_copy::add_span<JointPlan::kDqBytes>(to, from);
      }
      tile_copy::close_stores();
      // Asked for while the engine is at work.
      const unsigned next = visit + 1 < blocks ? turns[visit + 1] : 0;
      tile_copy::wait_until_read<0>();
      tile_copy::arrive(plan.dq_empty(warpgroup));
      tile_copy::wait_until_stored();
      tile_copy::tell(told, turn + 1);
      turn = next;
    }
  }
}

/// By a warp: rounds the sums of as many queries as a tile has keys, for each of this block's
/// tiles, once all tiles that these queries see have added to them.
__device__ inline void joint_rounder(const AttentionBackward<Bf16>& a,
                                     const JointWork& work,
                                     const JointSums& sums) {
  const AttentionShape& s = a.shape;
  constexpr int kWarps = kWarpgroup / 32;
  for (JointWay way(work); way.there(); way.next()) {
    const JointTile tile = way.tile();
    const int first = (tile.head * work.walk.tiles + tile.tile) * 2;  // of its two parts
    const float4* from = reinterpret_cast<const float4*>(sums.dq) +
                         static_cast<Index>(first) * (kSide * kSide / 4) + lane();
    const int b = tile.head / static_cast<int>(s.heads);
    const int h = tile.head % static_cast<int>(s.heads);
    Bf16* to =
        a.dq.row(b * s.queries + tile.tile * kTile + lane() / 4) + h * kSide + 2 * (lane() % 4);
#pragma unroll 1
    for (int warp = 0; warp < 2 * kWarps; ++warp) {
      if (warp % kWarps == 0) {
        const int all = work.walk.causal ? tile.tile + 1 : work.walk.tiles;
        if (lane() == 0) {
          wait_at_ease(sums.turns + first + warp / kWarps, static_cast<unsigned>(all));
        }
        __syncwarp();
      }
      float4 held[kSide / 8];
#pragma unroll
      for (int n = 0; n < kSide / 8; ++n) held[n] = __ldcg(from + n * kWarpgroup);
#pragma unroll
      for (int n = 0; n < kSide / 8; ++n) {
        const float upper[2] = {held[n].x, held[n].y};
        const float lower[2] = {held[n].z, held[n].w};
        write_pack(to + 8 * n, upper);
        write_pack(to + 8 * a.dq.stride + 8 * n, lower);
      }
      from += warp % kWarps == kWarps - 1 ? kSide * kSide / 4 - (kWarps - 1) * 32 : 32;
      to += 16 * a.dq.stride;
    }
  }
}

}  // namespace norma::kernels::wgmma
