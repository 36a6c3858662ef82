// Attention itself on Hopper, a tile of 128 queries at a time, over the keys that they see in
// blocks of 128, from the last to the first: a mask cuts only the block that comes first.
//   S = q·kᵀ   P = 2^(scale·S - most)   o = Σ P·v / Σ P   lse = ln(2)·most + ln(Σ P)
// `most` is the largest logit of a row so far, in powers of two; where it grows, what has been
// added up shrinks. S of the next block is on its way while P of this one meets its values, also
// where the next block belongs to the next tile.
#pragma once

#include <cfloat>
#include <numbers>
#include <type_traits>

#include "norma/kernels/cuda/attention_wgmma.cuh"

namespace norma::kernels::wgmma {

struct ForwardMaps {
  CUtensorMap q, k, v, o;
};

/// A tile of queries. The producer works it out, with divisions and a number from memory; those who
/// multiply read it beside the tile's rows.
struct alignas(16) ForwardTile {
  int blocks;  // of 128 keys; 0: there is no tile any more
  int b, h;
  int first;    // query
  float scale;  // of S, for powers of two
  int kv;
  __device__ ForwardTile(const AttentionForward<Bf16>& a, const Tiles& at) {
    const AttentionShape& s = a.shape;
    b = at.head() / static_cast<int>(s.heads);
    h = at.head() % static_cast<int>(s.heads);
    kv = h / static_cast<int>(s.heads / s.kv_heads);
    first = at.tile() * kTile;
    blocks = s.causal ? at.tile() + 1 : (static_cast<int>(s.keys) + kTile - 1) / kTile;
    // Infinity times the scale must be infinity: that is how keys are hidden.
    const float factor = a.head_factor[h] * kLog2E;
    scale = factor == 0 ? FLT_MIN : factor;
  }
};

/// With a third slot, which heads of 64 have room for, q of the next tile is there when a tile with
/// one block ends.
template <int kWidth>
using ForwardRing = Barriers<kWidth == 64 ? 11 : 5, kWidth == 64 ? 3 : 2>;

/// Where things lie in shared memory: q of a few tiles, where their o leaves from too, and a ring
/// in which blocks of 128 keys and of 128 values take turns.
template <int kWidth>
struct ForwardPlan : ForwardRing<kWidth> {
  using Ring = ForwardRing<kWidth>;
  static constexpr bool kHeld = kWidth == 64;  // whether a tile's queries are held in registers
  static constexpr int kRowsBytes = kWidth / kSide * kSquareBytes;  // 64 rows of one matrix
  static constexpr int kTileBytes = 2 * kRowsBytes;                 // 128 rows
  static constexpr int kStagesAt = Ring::kSlots * kTileBytes;
  static constexpr int kToldAt = kStagesAt + Ring::kStages * kTileBytes;
  static constexpr int kBarriersAt = kToldAt + Ring::kSlots * static_cast<int>(sizeof(ForwardTile));
  static constexpr int kBytes = 1024 + kBarriersAt + Ring::kBarriersBytes;

  unsigned base;
  ForwardTile* told;  // the tile of each slot: written before own_full(slot)
  __device__ explicit ForwardPlan(unsigned char* memory)
      : Ring{aligned_address(memory) + kBarriersAt},
        base(aligned_address(memory)),
        told(reinterpret_cast<ForwardTile*>(
            memory + (aligned_address(memory) - shared_address(memory)) + kToldAt)) {}
  __device__ unsigned own(int slot, int warpgroup) const {
    return base + static_cast<unsigned>(slot * kTileBytes + warpgroup * kRowsBytes);
  }
  __device__ unsigned block(int stage) const {
    return base + static_cast<unsigned>(kStagesAt + stage * kTileBytes);
  }
};

/// 128 keys, or where kTurned 128 values; by one lane. Keys' squares lie below each other first,
/// values' beside each other.
template <int kWidth, bool kTurned>
__device__ inline void copy_keys(const ForwardPlan<kWidth>& plan,
                                 int stage,
                                 const CUtensorMap* from,
                                 const ForwardTile& tile,
                                 int key) {
  const unsigned full = plan.full(stage);
  tile_copy::arrive_expecting(full, ForwardPlan<kWidth>::kTileBytes);
#pragma unroll
  for (int w = 0; w < 2; ++w) {
#pragma unroll
    for (int c = 0; c < kWidth / kSide; ++c) {
      const int square = kTurned ? w * (kWidth / kSide) + c : c * 2 + w;
      tile_copy::copy_head(plan.block(stage) + static_cast<unsigned>(square * kSquareBytes),
                           from,
                           c * kSide,
                           tile.kv,
                           key + w * kSide,
                           tile.b,
                           full);
    }
  }
}

template <int kWidth>
__device__ void forward_producer(const AttentionForward<Bf16>& a,
                                 const ForwardMaps& maps,
                                 const Walk& walk,
                                 const ForwardPlan<kWidth>& plan) {
  Place<ForwardPlan<kWidth>::kStages> place;
  Place<ForwardPlan<kWidth>::kSlots> slot;
  for (Tiles at(walk); at.there(); at.next()) {
    const ForwardTile tile(a, at);
    tile_copy::wait(plan.own_empty(slot.stage), slot.phase ^ 1U);
    if (lane() == 0) {
      plan.told[slot.stage] = tile;
      const unsigned full = plan.own_full(slot.stage);
      tile_copy::arrive_expecting(full, ForwardPlan<kWidth>::kTileBytes);
      for (int w = 0; w < 2; ++w) {
        const int query = tile.first + w * kSide;
        copy_rows<kWidth>(plan.own(slot.stage, w), &maps.q, tile.h, query, tile.b, full);
      }
    }
    __syncwarp();  // a lane two phases behind would wait for ever
    slot.next();
    for (int f = tile.blocks - 1; f >= 0; --f) {
      tile_copy::wait(plan.empty(place.stage), place.phase ^ 1U);
      if (lane() == 0) copy_keys<kWidth, false>(plan, place.stage, &maps.k, tile, f * kTile);
      __syncwarp();
      place.next();
      tile_copy::wait(plan.empty(place.stage), place.phase ^ 1U);
      if (lane() == 0) copy_keys<kWidth, true>(plan, place.stage, &maps.v, tile, f * kTile);
      __syncwarp();
      place.next();
    }
  }
  tile_copy::wait(plan.own_empty(slot.stage), slot.phase ^ 1U);
  if (lane() == 0) {
    plan.told[slot.stage].blocks = 0;
    tile_copy::arrive(plan.own_full(slot.stage));
  }
}

/// What a thread knows of its two rows.
struct ForwardRows {
  float most[2] = {-INFINITY, -INFINITY};
  float sum[2] = {};  // over this thread's columns
  float shrink[2];    // what came before the last block is worth this much
};

/// P from S, in place, with a scale that is negative where kNegative. A row sees the block's
/// columns before its `end`, one of a tile's first block at least; all rows see the first 2·kSeen
/// columns and none more than 2·kCount.
template <int kSeen, int kCount, bool kNegative>
__device__ inline void signed_probabilities(float (&s)[kTile / 2],
                                            float scale,
                                            const int (&end)[2],
                                            ForwardRows& rows) {
  float far[4];  // towards the largest logit; two for each row, so that less waits for the last
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i >= kSeen && column_of(i / 4) + i % 2 >= end[i / 2 % 2]) {
      s[i] = kNegative ? INFINITY : -INFINITY;
    }
    far[i % 4] = i < 4 ? s[i] : kNegative ? fminf(far[i % 4], s[i]) : fmaxf(far[i % 4], s[i]);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float largest = warp_max<4>(fmaxf(far[2 * r] * scale, far[2 * r + 1] * scale));
    const float most = fmaxf(rows.most[r], largest);
    rows.shrink[r] = quick_exp2(rows.most[r] - most);
    rows.most[r] = most;
  }
  float sum[4] = {};
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    s[i] = quick_exp2(fmaf(s[i], scale, -rows.most[i / 2 % 2]));
    sum[i % 4] += s[i];
  }
#pragma unroll
  for (int i = kCount; i < kTile / 2; ++i) s[i] = 0;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    rows.sum[r] = fmaf(rows.sum[r], rows.shrink[r], sum[2 * r] + sum[2 * r + 1]);
  }
}
/// With a scale of any sign. The branch goes around all of it: ptxas lifts the wait for a product
/// that comes behind it to the begin of its basic block, which must not be before the exponentials.
template <int kSeen, int kCount = kTile / 2>
__device__ inline void probabilities(float (&s)[kTile / 2],
                                     float scale,
                                     const int (&end)[2],
                                     ForwardRows& rows) {
  if (scale < 0) {
    signed_probabilities<kSeen, kCount, true>(s, scale, end, rows);
  } else {
    signed_probabilities<kSeen, kCount, false>(s, scale, end, rows);
  }
}

/// Rounds P for its product.
__device__ inline void round_probabilities(const float (&s)[kTile / 2],
                                           unsigned (&p)[kTile / 16][4]) {
#pragma unroll
  for (int i = 0; i < kTile / 2; i += 2) p[i / 8][i % 8 / 2] = rounded_pair(s[i], s[i + 1]);
}

/// The rows of o so far are worth less. Most blocks do not bring a larger logit to any row of a
/// warp.
template <int kCount>
__device__ inline void shrink_rows(float (&o)[kCount], const ForwardRows& rows) {
  if (__all_sync(0xFFFFFFFFU, rows.shrink[0] == 1 && rows.shrink[1] == 1)) return;
#pragma unroll
  for (int i = 0; i < kCount; ++i) o[i] *= rows.shrink[i / 2 % 2];
}

/// By a warpgroup: its rows of o, rounded, leave by way of shared memory, lse directly.
template <int kWidth>
__device__ inline void store_tile(const AttentionForward<Bf16>& a,
                                  const ForwardMaps& maps,
                                  const ForwardPlan<kWidth>& plan,
                                  int slot,
                                  int me,
                                  const ForwardRows& rows,
                                  float (&o)[kWidth / 2]) {
  const AttentionShape& s = a.shape;
  const ForwardTile tile = plan.told[slot];
  const unsigned out = plan.own(slot, me);
  const int first = tile.first + me * kSide;  // query
  const int count = min(kSide, static_cast<int>(s.queries) - first);
  const bool speaks = threadIdx.x % kWarpgroup == 0;
  const Index number = (static_cast<Index>(tile.b) * s.heads + tile.h) * s.queries + first;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float sum = warp_sum<4>(rows.sum[r]);
    if (lane() % 4 == 0 && row_of(r) < count) {
      a.lse[number + row_of(r)] = (rows.most[r] + quick_log2(sum)) * std::numbers::ln2_v<float>;
    }
    const float inverse = quick_inverse(sum);
#pragma unroll
    for (int i = 2 * r; i < kWidth / 2; i += 4) {
      o[i] *= inverse;
      o[i + 1] *= inverse;
    }
  }
  // Queries lie there, of which a warp has read its own rows; or the warpgroup has, in products.
  if constexpr (!ForwardPlan<kWidth>::kHeld) meet(me);
#pragma unroll
  for (int k = 0; k < kWidth / 16; ++k) store_rounded(out, k, o + 8 * k);
  tile_copy::show_to_engine();
  meet(me);
  if (!speaks || count <= 0) return;
#pragma unroll
  for (int c = 0; c < kWidth / kSide; ++c) {
    const auto square = static_cast<unsigned>(c * kSquareBytes);
    tile_copy::store_head(&maps.o, c * kSide, tile.h, first, tile.b, out + square);
  }
  tile_copy::close_stores();
}

/// Block after block over all tiles: P of one tile's last block meets its values while S of the
/// next tile's first block is made.
template <int kWidth>
__device__ void forward_consumer(const AttentionForward<Bf16>& a,
                                 const ForwardMaps& maps,
                                 const ForwardPlan<kWidth>& plan,
                                 int me) {
  using AtWork = ForwardPlan<kWidth>;
  const AttentionShape& shape = a.shape;
  Place<AtWork::kStages> place;
  Place<AtWork::kSlots> slot;  // of the tile that S belongs to
  int of_p = 0;                // the slot of P's tile
  int leaving = -1;            // the slot that o of the tile before is on its way from
  float scale = 0;
  std::uint64_t queries = 0;   // the tile of q, or
  unsigned q[kWidth / 16][4];  // what is held of it
  float o[kWidth / 2] = {};
  float s[kTile / 2];
  unsigned p[kTile / 16][4];
  ForwardRows rows;
  const auto own = [&](int k) -> decltype(auto) {
    if constexpr (AtWork::kHeld) {
      return (q[k]);
    } else {
      return rows_step(queries, k);
    }
  };
  const auto begin_tile = [&] {  // how many blocks it has
    tile_copy::wait(plan.own_full(slot.stage), slot.phase);
    scale = plan.told[slot.stage].scale;
    queries = tile_of_warp(plan.own(slot.stage, me));
    if constexpr (AtWork::kHeld) load_left(plan.own(slot.stage, me), q);
    return plan.told[slot.stage].blocks;
  };
  const auto give_back = [&] {  // the slot that o has left
    if (leaving < 0) return;
    if (threadIdx.x % kWarpgroup == 0) tile_copy::wait_until_read<0>();
    release(plan.own_empty(leaving));
    leaving = -1;
  };
  int left = begin_tile();  // blocks of a tile from S's or, once it has become P, from P's on
  if (left == 0) return;
  const auto first_probabilities = [&] {
    constexpr int kHalf = kSide / 2;
    rows = {};
    if (shape.causal) {
      // The queries of one warpgroup come before the second half of the keys, those of the other
      // behind the first.
      const int end[2] = {me * kSide + row_of(0) + 1, me * kSide + row_of(1) + 1};
      if (me == 0) {
        probabilities<0, kHalf>(s, scale, end, rows);
      } else {
        probabilities<kHalf>(s, scale, end, rows);
      }
      return;
    }
    const int end = static_cast<int>(shape.keys) - (left - 1) * kTile;
    if (end < kTile) {
      probabilities<0>(s, scale, {end, end}, rows);
    } else {
      probabilities<kTile / 2>(s, scale, {}, rows);
    }
  };
  tile_copy::wait(plan.full(place.stage), place.phase);
  arrived(o);
  begin();
  multiply_steps<kWidth, kTile>(s, own, plan.block(place.stage));
  commit();
  wait<0>();
  arrived(s);
  release(plan.empty(place.stage));
  first_probabilities();
  round_probabilities(s, p);
  // P meets its values while S of the next block is made; where kEnds, P is its tile's last and the
  // next block is another's first. One copy with conditions instead of two takes a tenth more time.
  const auto step = [&]<bool kEnds>(std::bool_constant<kEnds>) {
    place.next();
    const int values = place.stage;
    tile_copy::wait(plan.full(values), place.phase);
    place.next();
    const int keys = place.stage;
    tile_copy::wait(plan.full(keys), place.phase);
    begin();
    multiply_steps<kWidth, kTile>(s, own, tile_of_warp(plan.block(keys)));
    commit();
    add_product<kWidth>(o, p, tile_of_warp(plan.block(values)));
    commit();
    wait<1>();
    arrived(s);
    release(plan.empty(keys));
    const ForwardRows before = rows;
    if constexpr (kEnds) {
      first_probabilities();
    } else {
      probabilities<kTile / 2>(s, scale, {}, rows);
    }
    wait<0>();
    arrived(o);
    used(p);
    release(plan.empty(values));
    if constexpr (kEnds) {
      store_tile<kWidth>(a, maps, plan, of_p, me, before, o);
      leaving = of_p;
      of_p = slot.stage;
#pragma unroll
      for (float& one : o) one = 0;
    } else {
      shrink_rows(o, rows);
    }
    round_probabilities(s, p);
  };
  for (;;) {
    for (; left > 1; --left) {
      give_back();
      step(std::false_type{});
    }
    give_back();
    slot.next();
    left = begin_tile();
    if (left == 0) break;
    step(std::true_type{});
  }
  place.next();
  tile_copy::wait(plan.full(place.stage), place.phase);
  begin();
  add_product<kWidth>(o, p, plan.block(place.stage));
  commit();
  wait<0>();
  arrived(o);
  used(p);
  release(plan.empty(place.stage));
  store_tile<kWidth>(a, maps, plan, of_p, me, rows, o);
  if (threadIdx.x % kWarpgroup == 0) tile_copy::wait_until_read<0>();
}

template <int kWidth>
__global__ void __launch_bounds__(kThreads, 1)
    forward_kernel(const __grid_constant__ ForwardMaps maps,
                   const AttentionForward<Bf16> a,
                   const Walk walk) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char memory[];
  const ForwardPlan<kWidth> plan(memory);
  plan.make_barriers(1);
  const int warpgroup = warpgroup_of_thread();
  if (warpgroup == 2) {
    fewer_registers<kProducerRegisters>();
    if (threadIdx.x % kWarpgroup < 32) forward_producer(a, maps, walk, plan);
  } else {
    more_registers<kConsumerRegisters>();
    forward_consumer(a, maps, plan, warpgroup);
  }
#else
  __trap();  // built for another GPU than the one that was asked
#endif
}

}  // namespace norma::kernels::wgmma
