// Attention itself on Hopper, a tile of 128 queries at a time, over the keys that they see in
// blocks of 128, from the last to the first: a mask cuts only the block that comes first.
//   S = q·kᵀ   P = 2^(scale·S - most)   o = Σ P·v / Σ P   lse = ln(2)·most + ln(Σ P)
// `most` is the largest logit of a row so far, in powers of two; where it grows, what has been
// added up shrinks. S of the next block is on its way while P of this one meets its values, also
// where the next block belongs to the next tile.
#pragma once

#include <cfloat>
#include <numbers>

#include "norma/kernels/cuda/attention_wgmma.cuh"

namespace norma::kernels::wgmma {

struct ForwardMaps {
  CUtensorMap q, k, v, o;
};

/// Where things lie in shared memory: q of two tiles, where their o leaves from too, and a ring in
/// which blocks of 128 keys and of 128 values take turns.
template <int kWidth>
struct ForwardPlan : Barriers<kWidth == 64 ? 12 : 5, 2> {
  using Ring = Barriers<kWidth == 64 ? 12 : 5, 2>;
  static constexpr bool kHeld = kWidth == 64;  // whether a tile's queries are held in registers
  static constexpr int kRowsBytes = kWidth / kSide * kSquareBytes;  // 64 rows of one matrix
  static constexpr int kTileBytes = 2 * kRowsBytes;                 // 128 rows
  static constexpr int kStagesAt = 2 * kTileBytes;
  static constexpr int kBarriersAt = kStagesAt + Ring::kStages * kTileBytes;
  static constexpr int kBytes = 1024 + kBarriersAt + Ring::kBarriersBytes;

  unsigned base;
  __device__ explicit ForwardPlan(const unsigned char* memory)
      : Ring{aligned_address(memory) + kBarriersAt}, base(aligned_address(memory)) {}
  __device__ unsigned own(int slot, int warpgroup) const {
    return base + static_cast<unsigned>(slot * kTileBytes + warpgroup * kRowsBytes);
  }
  __device__ unsigned block(int stage) const {
    return base + static_cast<unsigned>(kStagesAt + stage * kTileBytes);
  }
};

struct ForwardTile {
  int b, h, kv, first;  // first: the tile's first query
  int blocks;           // of 128 keys
  __device__ ForwardTile(const AttentionShape& s, const Tiles& at)
      : b(at.head() / static_cast<int>(s.heads)),
        h(at.head() % static_cast<int>(s.heads)),
        kv(h / (static_cast<int>(s.heads) / static_cast<int>(s.kv_heads))),
        first(at.tile() * kTile),
        blocks(s.causal ? at.tile() + 1 : (static_cast<int>(s.keys) + kTile - 1) / kTile) {}
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
__device__ void forward_producer(const ForwardMaps& maps,
                                 const AttentionShape& s,
                                 const Walk& walk,
                                 const ForwardPlan<kWidth>& plan) {
  Place<ForwardPlan<kWidth>::kStages> place;
  Place<2> slot;
  for (Tiles at(walk); at.there(); at.next()) {
    const ForwardTile tile(s, at);
    tile_copy::wait(plan.own_empty(slot.stage), slot.phase ^ 1U);
    if (lane() == 0) {
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
}

/// What a thread knows of its two rows.
struct ForwardRows {
  float most[2] = {-INFINITY, -INFINITY};
  float sum[2] = {};  // over this thread's columns
  float shrink[2];    // what came before the last block is worth this much
};

/// P from S, in place, with a scale that is negative where kNegative. Where kMasked a row sees the
/// block's columns before its `end`; of a tile's first block it sees one at least. Nobody sees more
/// than the first 2·kCount columns.
template <bool kMasked, bool kNegative, int kCount>
__device__ inline void signed_probabilities(float (&s)[kTile / 2],
                                            float scale,
                                            const int (&end)[2],
                                            ForwardRows& rows) {
  const auto hidden = [&](int i) { return kMasked && column_of(i / 4) + i % 2 >= end[i / 2 % 2]; };
  float far[4];  // towards the largest logit; two for each row, so that less waits for the last
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float one = hidden(i) ? (kNegative ? FLT_MAX : -FLT_MAX) : s[i];
    far[i % 4] = i < 4 ? one : kNegative ? fminf(far[i % 4], one) : fmaxf(far[i % 4], one);
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
    if (hidden(i)) s[i] = 0;
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
template <bool kMasked, int kCount = kTile / 2>
__device__ inline void probabilities(float (&s)[kTile / 2],
                                     float scale,
                                     const int (&end)[2],
                                     ForwardRows& rows) {
  if (scale < 0) {
    signed_probabilities<kMasked, true, kCount>(s, scale, end, rows);
  } else {
    signed_probabilities<kMasked, false, kCount>(s, scale, end, rows);
  }
}

/// Rounds P for its product.
__device__ inline void round_probabilities(const float (&s)[kTile / 2],
                                           unsigned (&p)[kTile / 16][4]) {
#pragma unroll
  for (int i = 0; i < kTile / 2; i += 2) p[i / 8][i % 8 / 2] = pair(s[i], s[i + 1]);
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
                                  const ForwardTile& tile,
                                  unsigned out,
                                  int me,
                                  const ForwardRows& rows,
                                  float (&o)[kWidth / 2]) {
  const AttentionShape& s = a.shape;
  const int first = tile.first + me * kSide;  // query
  const int count = min(kSide, static_cast<int>(s.queries) - first);
  const bool speaks = threadIdx.x % kWarpgroup == 0;
  const Index number = (static_cast<Index>(tile.b) * s.heads + tile.h) * s.queries + first;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float sum = warp_sum<4>(rows.sum[r]);
    if (lane() % 4 == 0 && row_of(r) < count) {
      a.lse[number + row_of(r)] = fmaf(rows.most[r], std::numbers::ln2_v<float>, logf(sum));
    }
    const float inverse = 1 / sum;
#pragma unroll
    for (int i = 2 * r; i < kWidth / 2; i += 4) {
      o[i] *= inverse;
      o[i + 1] *= inverse;
    }
  }
  meet(me);  // nobody reads queries there any more
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
                                 const Walk& walk,
                                 const ForwardPlan<kWidth>& plan,
                                 int me) {
  using AtWork = ForwardPlan<kWidth>;
  const AttentionShape& shape = a.shape;
  Tiles at(walk);
  if (!at.there()) return;
  ForwardTile tile(shape, at);  // of P
  int f = 0;                    // blocks of the tile before P's
  Place<AtWork::kStages> place;
  Place<2> slot;        // of the tile that S belongs to
  bool leaves = false;  // o of the tile before is on its way from the other slot
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
  const auto begin_tile = [&](const ForwardTile& of) {
    scale = a.head_factor[of.h] * kLog2E;
    tile_copy::wait(plan.own_full(slot.stage), slot.phase);
    queries = tile_of_warp(plan.own(slot.stage, me));
    if constexpr (AtWork::kHeld) load_left(plan.own(slot.stage, me), q);
  };
  const auto give_back = [&] {  // the slot that o has left
    if (!leaves) return;
    if (threadIdx.x % kWarpgroup == 0) tile_copy::wait_until_read<0>();
    release(plan.own_empty(1 - slot.stage));
    leaves = false;
  };
  const auto first_probabilities = [&](const ForwardTile& of) {
    int end[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      end[r] = shape.causal ? me * kSide + row_of(r) + 1
                            : static_cast<int>(shape.keys) - (of.blocks - 1) * kTile;
    }
    rows = {};
    if (shape.causal && me == 0) {  // its queries come before the other half of the keys
      probabilities<true, kSide / 2>(s, scale, end, rows);
    } else if (shape.causal || end[0] < kTile) {
      probabilities<true>(s, scale, end, rows);
    } else {
      probabilities<false>(s, scale, end, rows);
    }
  };
  begin_tile(tile);
  tile_copy::wait(plan.full(place.stage), place.phase);
  arrived(o);
  begin();
  multiply_steps<kWidth, kTile>(s, own, plan.block(place.stage));
  commit();
  wait<0>();
  arrived(s);
  release(plan.empty(place.stage));
  first_probabilities(tile);
  round_probabilities(s, p);
  for (;;) {
    const bool ends = f + 1 == tile.blocks;  // P is the tile's last
    ForwardTile next = tile;
    give_back();
    if (ends) {
      at.next();
      if (!at.there()) break;
      next = ForwardTile(shape, at);
      slot.next();
      begin_tile(next);
    }
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
    if (ends) {
      first_probabilities(next);
    } else {
      probabilities<false>(s, scale, {}, rows);
    }
    wait<0>();
    arrived(o);
    used(p);
    release(plan.empty(values));
    if (ends) {
      store_tile<kWidth>(a, maps, tile, plan.own(1 - slot.stage, me), me, before, o);
      leaves = true;
#pragma unroll
      for (float& one : o) one = 0;
      tile = next;
      f = 0;
    } else {
      shrink_rows(o, rows);
      ++f;
    }
    round_probabilities(s, p);
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
  store_tile<kWidth>(a, maps, tile, plan.own(slot.stage, me), me, rows, o);
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
    if (threadIdx.x % kWarpgroup < 32) forward_producer(maps, a.shape, walk, plan);
  } else {
    more_registers<kConsumerRegisters>();
    forward_consumer(a, maps, walk, plan, warpgroup);
  }
#else
  __trap();  // built for another GPU than the one that was asked
#endif
}

}  // namespace norma::kernels::wgmma
