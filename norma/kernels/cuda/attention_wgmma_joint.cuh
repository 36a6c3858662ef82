// dq, dk and dv on Hopper in one go, for heads of 64 where whole tiles of keys meet whole blocks of
// queries, 128 each: five products instead of the seven of two kernels.
//   Sᵀ, Pᵀ, dPᵀ, dSᵀ, dv and dk as in attention_wgmma_keys.cuh   dq = Σ dS·k
// A warpgroup has 64 keys of a tile and all queries of a block; of the block's dq it has 64
// queries. For these it needs dSᵀ of both warpgroups, which goes through shared memory. It
// multiplies it a step later, so that neither waits for the other.
#pragma once

#include "norma/kernels/cuda/attention_wgmma_joint_sums.cuh"
#include "norma/kernels/cuda/attention_wgmma_keys.cuh"

namespace norma::kernels::wgmma {

/// Tells who reads with the engine or in products what this warp has written.
__device__ inline void tell(unsigned barrier) {
  tile_copy::show_to_engine();
  release(barrier);
}

/// By a warpgroup: sets its 64 rows of a tile, by way of a square of shared memory, of which each
/// warp has the rows that it holds.
__device__ inline void set_rows(Rows<Bf16> to,
                                Index first,
                                int column,
                                const float (&values)[kSide / 2],
                                unsigned char* square) {
  const unsigned at = shared_address(square);
#pragma unroll
  for (int k = 0; k < kSide / 16; ++k) store_rounded(at, k, values + 8 * k);
  __syncwarp();
  const int row = static_cast<int>(threadIdx.x) % kWarpgroup / 32 * 16 + lane() / 8;
  Bf16* out = to.row(first + row) + column + lane() % 8 * 8;
#pragma unroll 1  // there are no registers left
  for (int i = row; i < row + 16; i += 4, out += 4 * to.stride) {
    const auto* from =
        reinterpret_cast<const Bf16*>(square + i * 128 + ((lane() % 8) ^ (i % 8)) * 16);
    store_pack(out, load_pack<8>(from));
  }
  __syncwarp();
}

/// out = left·block, left in registers, or where `add` is not 0 added to it.
__device__ inline void add_block(float (&out)[kSide / 2],
                                 const unsigned (&left)[kTile / 16][4],
                                 unsigned block,
                                 int add) {
#pragma unroll
  for (int k = 0; k < kTile / 16; ++k) multiply<true>(out, left[k], turned_step(block, k), add | k);
}
/// dq = dS·k of 64 queries and all keys of the tile.
__device__ inline void multiply_slopes(
    float (&dq)[kSide / 2], const JointPlan& plan, int buffer, int slot, int warpgroup) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const unsigned slopes =
        plan.slopes(buffer, half) + static_cast<unsigned>(warpgroup * kSquareBytes);
    const unsigned keys = plan.own_k(slot, half);
#pragma unroll
    for (int k = 0; k < kSide / 16; ++k) {
      if (half == 0 && k == 0) {
        multiply_turned(dq, turned_step(slopes, k), turned_step(keys, k));
      } else {
        multiply_add_turned(dq, turned_step(slopes, k), turned_step(keys, k));
      }
    }
  }
}

/// Step after step over all blocks of all tiles; the dq of a block, and a tile's dk and dv, end in
/// the step after. Products that there is nothing for, dq in the first step and S in the last, are
/// done all the same and not looked at: the compiler keeps products in flight only where they do
/// not depend on conditions. While a product is under way the warpgroup does what does not need it:
/// dq beside the second half of P, dv beside dS, dk beside leaving dS to the other. Numbers of the
/// queries are asked for before a product is, behind whose own reading they would have to wait.
template <bool kCausal>
__device__ void joint_consumer(const AttentionBackward<Bf16>& a, const JointPlan& plan, int me) {
  int f = 0;           // blocks of this tile so far
  int tiles = 0;       // before this one
  bool ended = false;  // whether the step before was the last of its tile
  float dk[kSide / 2] = {};
  float dv[kSide / 2] = {};
  float dq[kSide / 2];
  float s[kTile / 2];
  float dp[kTile / 2];
  unsigned p[kTile / 16][4];
  unsigned ds[kTile / 16][4] = {};
  // dk or dv of the tile that was in this slot; v is not needed any more.
  const auto set_tile = [&](Rows<Bf16> to, const float(&values)[kSide / 2], int slot) {
    unsigned char* square = plan.memory + (plan.own_v(slot, me) - plan.base);
    const JointNote& note = plan.note(slot);
    set_rows(to, note.row + me * kSide, note.column, values, square);
  };
  tile_copy::wait(plan.own_full(0), 0);
  int blocks = plan.note(0).blocks;
  int first = plan.note(0).first;
  if (blocks == 0) return;
  tile_copy::wait(plan.full(0), 0);
  arrived(dk);
  arrived(dv);
  begin();
  multiply_rows<kSide>(s, plan.own_k(0, me), plan.q(0));
  commit();
  // P of one half of the queries.
  const auto half_of_p = [&]<int kHalf>(const HeldNumbers<kHalf>& lse, int place, float scale) {
    if (!kCausal || place != blocks - 1) {
      keys_probabilities<kUnmasked, kHalf>(s, scale, lse, p);
    } else if (me == 0) {
      keys_probabilities<0, kHalf>(s, scale, lse, p);
    } else {
      keys_probabilities<kSide, kHalf>(s, scale, lse, p);
    }
  };
  int step = 0;
  for (bool more = true; more; ++step) {
    const int stage = step % 2;
    const int before = 1 - stage;
    const int slot = tiles % 2;
    const int slot_before = ended ? 1 - slot : slot;
    const int place = joint_place(first, blocks, f);
    const float* numbers = plan.numbers(stage);
    const float factor = numbers[2 * kTile];
    const float scale = factor * kLog2E;
    const HeldNumbers<0> lse(numbers);
    wait<0>();  // S, and dk of the step before
    arrived(s);
    arrived(dk);
    used(ds);
    if (step > 0) release(plan.empty(before));
    half_of_p(lse, place, scale);
    if (step > 0) tile_copy::wait(plan.slopes_full(before), phase_of(step - 1));
    const HeldNumbers<1> second_lse(numbers);
    begin();
    multiply_slopes(dq, plan, before, slot_before, me);  // of the step before
    commit();
    half_of_p(second_lse, place, scale);
    wait<0>();
    arrived(dq);
    if (ended) set_tile(a.dv, dv, slot_before);
    begin();
    multiply_rows<kSide>(dp, plan.own_v(slot, me), plan.dout(stage));
    commit();
    add_block(dv, p, plan.dout(stage), f);
    commit();
    if (step > 0) put_dq(dq, plan, me, step - 1);
    if (ended) {
      set_tile(a.dk, dk, slot_before);
      tell(plan.own_empty(slot_before));
    }
    const HeldNumbers<0> delta(numbers + kTile);
    wait<1>();
    arrived(dp);
    const HeldNumbers<1> second_delta(numbers + kTile);
    keys_slopes<0>(p, dp, factor, delta, ds);
    keys_slopes<1>(p, dp, factor, second_delta, ds);
    if (step > 0) tell(plan.dq_full(me));
    wait<0>();
    arrived(dv);
    used(p);
    begin();
    add_block(dk, ds, plan.q(stage), f);
    commit();
    // The other has read what it left here two steps ago: since then it left the dS of the step
    // before, for which this one has waited.
#pragma unroll
    for (int k = 0; k < kTile / 16; ++k) store_fragment(plan.slopes(stage, me), k, ds[k]);
    ended = ++f == blocks;
    if (ended) {
      const int next = tiles + 1;
      tile_copy::wait(plan.own_full(next % 2), phase_of(next));
      const JointNote& note = plan.note(next % 2);
      more = note.blocks > 0;
      if (more) {
        tiles = next;
        f = 0;
        blocks = note.blocks;
        first = note.first;
      }
    }
    if (more) tile_copy::wait(plan.full(before), phase_of(step + 1));
    begin();
    multiply_rows<kSide>(s, plan.own_k(tiles % 2, me), plan.q(before));
    commit();
    tell(plan.slopes_full(stage));
  }
  wait<0>();
  arrived(s);
  arrived(dk);
  used(ds);
  tile_copy::wait(plan.slopes_full((step - 1) % 2), phase_of(step - 1));
  begin();
  multiply_slopes(dq, plan, (step - 1) % 2, tiles % 2, me);
  commit();
  set_tile(a.dk, dk, tiles % 2);
  set_tile(a.dv, dv, tiles % 2);
  wait<0>();
  arrived(dq);
  put_dq(dq, plan, me, step - 1);
  tell(plan.dq_full(me));
}

template <bool kCausal>
__global__ void __launch_bounds__(kThreads, 1) joint_kernel(const __grid_constant__ Maps maps,
                                                            const AttentionBackward<Bf16> a,
                                                            const JointWork work,
                                                            const JointSums sums) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char memory[];
  const JointPlan plan(memory);
  plan.make_barriers();
  const int warpgroup = warpgroup_of_thread();
  if (warpgroup == 2) {
    fewer_registers<kJointOthersRegisters>();
    const int warp = static_cast<int>(threadIdx.x) % kWarpgroup / 32;
    if (warp == 0) joint_producer(maps, a, work, plan);
    if (warp == 1) joint_rounder(a, work, sums);
    if (warp > 1) joint_adder(work, plan, sums, warp - 2);
  } else {
    more_registers<kJointConsumerRegisters>();
    joint_consumer<kCausal>(a, plan, warpgroup);
  }
#else
  __trap();  // built for another GPU than the one that was asked
#endif
}

}  // namespace norma::kernels::wgmma
