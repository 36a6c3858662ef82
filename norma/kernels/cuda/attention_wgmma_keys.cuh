// dk and dv on Hopper, a tile of keys at a time: everything is turned, so that keys are the rows of
// all products and what a block of queries contributes stays in the registers that add it up.
//   Sᵀ = k·qᵀ   Pᵀ = 2^(scale·Sᵀ - lse)   dPᵀ = v·doutᵀ   dSᵀ = Pᵀ ∘ (factor·dPᵀ - factor·delta)
//   dv += Pᵀ·dout   dk += dSᵀ·q
#pragma once

#include "norma/kernels/cuda/attention_wgmma.cuh"

namespace norma::kernels::wgmma {

/// The blocks that a tile of keys meets: block f holds 64 queries of one of the heads that share
/// the key head; all of these heads come before the next queries.
struct KeysTile {
  int b, kv, first;  // first: the tile's first key
  int group;
  int block, blocks;  // the first block's queries, in 64s; blocks of all heads
  __device__ KeysTile(const AttentionShape& s, const Tiles& at)
      : b(at.head() / static_cast<int>(s.kv_heads)),
        kv(at.head() % static_cast<int>(s.kv_heads)),
        first(at.tile() * kTile),
        group(static_cast<int>(s.heads / s.kv_heads)),
        block(s.causal ? first / kSide : 0),
        blocks(((static_cast<int>(s.queries) + kSide - 1) / kSide - block) * group) {}
};

template <int kWidth>
__device__ void keys_producer(const Maps& maps,
                              const AttentionBackward<Bf16>& a,
                              const Walk& walk,
                              const Plan<kWidth>& plan,
                              unsigned char* memory) {
  constexpr int kStages = Plan<kWidth>::kStages;
  const AttentionShape& s = a.shape;
  Place<kStages> place;
  unsigned own_phase = 0;
  for (Tiles at(walk); at.there(); at.next()) {
    const KeysTile tile(s, at);
    // Where products read the own rows from shared memory, those of the last tile are needed to its
    // end; what it has left of the ring is filled meanwhile.
    const int own_at = Plan<kWidth>::kKeysHeld ? 0 : min(tile.blocks, kStages) - 1;
    for (int f = 0; f < tile.blocks; ++f) {
      if (f == own_at) {
        tile_copy::wait(plan.own_empty(), own_phase ^ 1U);
        own_phase ^= 1U;
        if (lane() == 0) copy_own(plan, &maps.k, &maps.v, tile.kv, tile.first, tile.b);
      }
      const int h = tile.kv * tile.group + f % tile.group;
      const int query = (tile.block + f / tile.group) * kSide;
      // Asked for before the stage is free. Queries beyond the end get no probability.
      const float factor = a.head_factor[h];
      float lse[2];
      float delta[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int i = query + lane() + 32 * r;
        const Index number = (static_cast<Index>(tile.b) * s.heads + h) * s.queries + i;
        lse[r] = i < s.queries ? a.lse[number] * kLog2E : INFINITY;
        delta[r] = i < s.queries ? a.scratch[number] * factor : 0.0f;
      }
      tile_copy::wait(plan.empty(place.stage), place.phase ^ 1U);
      float* numbers = plan.numbers(memory, place.stage);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        numbers[lane() + 32 * r] = lse[r];
        numbers[kSide + lane() + 32 * r] = delta[r];
      }
      if (lane() == 0) numbers[2 * kSide] = factor;
      // Every lane says that its numbers are there.
      if (lane() == 0) {
        copy_block(plan, place.stage, &maps.q, &maps.dout, h, query, tile.b);
      } else {
        tile_copy::arrive(plan.full(place.stage));
      }
      __syncwarp();  // a lane two phases behind would wait for ever
      place.next();
    }
  }
}

/// lse or delta of the queries in this thread's columns of the n-th eight: looked up when they are
/// needed, or held.
struct LookedUp {
  const float* numbers;
  __device__ float2 operator()(int n) const {
    return *reinterpret_cast<const float2*>(numbers + column_of(n));
  }
};
template <int kPart>
struct HeldNumbers {  // of the kPart-th 64 queries
  static constexpr int kFirst = kPart * kSide / 8;
  float2 held[kSide / 8];
  __device__ explicit HeldNumbers(const float* numbers) {
#pragma unroll
    for (int i = 0; i < kSide / 8; ++i) held[i] = LookedUp{numbers}(kFirst + i);
  }
  __device__ float2 operator()(int n) const { return held[n - kFirst]; }
};

inline constexpr int kUnmasked = -kSide;
/// Pᵀ from Sᵀ, rounded, of the kPart-th 64 queries. Where 64 queries, from the kDiagonal-th on, are
/// the same tokens as the warpgroup's keys, each sees the keys up to its own; those before see
/// none, those behind all. kUnmasked: all see all.
template <int kDiagonal, int kPart = 0, int kCount, class Numbers>
__device__ inline void keys_probabilities(const float (&s)[kCount],
                                          float scale,
                                          const Numbers& lse,
                                          unsigned (&p)[kCount / 8][4]) {
#pragma unroll
  for (int n = kPart * kSide / 8; n < (kPart + 1) * kSide / 8; ++n) {
    if (8 * n < kDiagonal) {
      p[n / 2][n % 2 * 2] = p[n / 2][n % 2 * 2 + 1] = 0;
      continue;
    }
    const float2 here = lse(n);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float low = quick_exp2(fmaf(s[4 * n + 2 * r], scale, -here.x));
      float high = quick_exp2(fmaf(s[4 * n + 2 * r + 1], scale, -here.y));
      if (8 * n < kDiagonal + kSide) {
        if (column_of(n) < kDiagonal + row_of(r)) low = 0;
        if (column_of(n) + 1 < kDiagonal + row_of(r)) high = 0;
      }
      p[n / 2][n % 2 * 2 + r] = rounded_pair(low, high);
    }
  }
}
/// dSᵀ from Pᵀ and dPᵀ, rounded, of the kPart-th 64 queries.
template <int kPart = 0, int kCount, class Numbers>
__device__ inline void keys_slopes(const unsigned (&p)[kCount / 8][4],
                                   const float (&dp)[kCount],
                                   float factor,
                                   const Numbers& delta,
                                   unsigned (&ds)[kCount / 8][4]) {
#pragma unroll
  for (int n = kPart * kSide / 8; n < (kPart + 1) * kSide / 8; ++n) {
    const float2 here = delta(n);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const unsigned both = p[n / 2][n % 2 * 2 + r];
      ds[n / 2][n % 2 * 2 + r] =
          rounded_pair(low_of(both) * fmaf(dp[4 * n + 2 * r], factor, -here.x),
                       high_of(both) * fmaf(dp[4 * n + 2 * r + 1], factor, -here.y));
    }
  }
}

template <int kWidth>
__device__ void keys_consumer(const AttentionBackward<Bf16>& a,
                              const Walk& walk,
                              const Plan<kWidth>& plan,
                              unsigned char* memory,
                              int warpgroup) {
  constexpr bool kHeld = Plan<kWidth>::kKeysHeld;
  // Whether dv and S of the next block are made while the slopes of this one are worked out; at 128
  // the sums leave no registers for that (the compiler would make all products wait for each
  // other), and there the products of the other warpgroup last long enough to fill the gap.
  constexpr bool kAhead = kWidth == 64;
  const AttentionShape& shape = a.shape;
  const unsigned own_k = plan.own_near(warpgroup);
  const unsigned own_v = plan.own_far(warpgroup);
  Place<Plan<kWidth>::kStages> place;
  unsigned own_phase = 0;
  unsigned k[kWidth / 16][4];
  unsigned v[kWidth / 16][4];
  for (Tiles at(walk); at.there(); at.next()) {
    const KeysTile tile(shape, at);
    const int first = tile.first + warpgroup * kSide;  // key
    const int count = min(kSide, static_cast<int>(shape.keys) - first);
    // The second warpgroup's keys come after the first queries, or do not exist.
    const int unseen = count <= 0 ? tile.blocks : shape.causal ? warpgroup * tile.group : 0;
    const int diagonal = shape.causal ? unseen + tile.group : 0;  // up to here
    for (int f = 0; f < unseen; ++f) {
      tile_copy::wait(plan.full(place.stage), place.phase);
      release(plan.empty(place.stage));
      place.next();
    }
    tile_copy::wait(plan.own_full(), own_phase);
    own_phase ^= 1U;
    if constexpr (kHeld) {
      load_left(own_k, k);
      load_left(own_v, v);
      release(plan.own_empty());
    }
    float dk[kWidth / 2] = {};
    float dv[kWidth / 2] = {};
    if (unseen < tile.blocks) {
      float s[kSide / 2];
      float dp[kSide / 2];
      unsigned p[kSide / 16][4];
      unsigned ds[kSide / 16][4] = {};
      int last = -1;  // stage of the block before
      tile_copy::wait(plan.full(place.stage), place.phase);
      arrived(dk);
      arrived(dv);
      begin();
      multiply_rows<kWidth, kHeld>(s, k, own_k, plan.near(place.stage));
      commit();
      multiply_rows<kWidth, kHeld>(dp, v, own_v, plan.far(place.stage));
      commit();
      wait<1>();
      arrived(s);
      const auto step = [&](int f, auto more) {
        const int stage = place.stage;
        const float* numbers = plan.numbers(memory, stage);
        place.next();
        // S is there; dP is on its way, where kAhead after dk of the block before.
        const float factor = numbers[2 * kSide];
        const float scale = factor * kLog2E;
        const LookedUp lse{numbers};
        if (f < diagonal) {
          keys_probabilities<0>(s, scale, lse, p);
        } else {
          keys_probabilities<kUnmasked>(s, scale, lse, p);
        }
        wait<0>();
        arrived(dp);
        used(ds);
        if (last >= 0) release(plan.empty(last));
        last = stage;
        if constexpr (more) tile_copy::wait(plan.full(place.stage), place.phase);
        begin();
        add_product<kWidth>(dv, p, plan.far(stage));
        if constexpr (more && kAhead) {
          multiply_rows<kWidth, kHeld>(s, k, own_k, plan.near(place.stage));
        }
        commit();
        if constexpr (!kAhead) wait<0>();
        keys_slopes(p, dp, factor, LookedUp{numbers + kSide}, ds);
        if constexpr (kAhead) {
          wait<0>();
          arrived(s);
        }
        used(p);
        begin();
        add_product<kWidth>(dk, ds, plan.near(stage));
        if constexpr (more && !kAhead) {
          multiply_rows<kWidth, kHeld>(s, k, own_k, plan.near(place.stage));
          commit();
        }
        if constexpr (more) multiply_rows<kWidth, kHeld>(dp, v, own_v, plan.far(place.stage));
        commit();
        if constexpr (more && !kAhead) {
          wait<1>();
          arrived(s);
          used(ds);
        }
      };
      for (int f = unseen; f + 1 < tile.blocks; ++f) step(f, std::true_type{});
      step(tile.blocks - 1, std::false_type{});
      wait<0>();
      arrived(dk);
      arrived(dv);
      used(ds);
      release(plan.empty(last));
    }
    if constexpr (!kHeld) release(plan.own_empty());
    const Index row = static_cast<Index>(tile.b) * shape.key_rows + first;
    const int width = static_cast<int>(shape.head_width);
    if (a.dk) store_rows<kWidth>(a.dk, row, count, tile.kv, width, a.dk_into, 1, dk);
    if (a.dv) store_rows<kWidth>(a.dv, row, count, tile.kv, width, a.dv_into, 1, dv);
  }
}

template <int kWidth>
__global__ void __launch_bounds__(kThreads, 1) keys_kernel(const __grid_constant__ Maps maps,
                                                           const AttentionBackward<Bf16> a,
                                                           const Walk walk) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char memory[];
  const Plan<kWidth> plan(memory);
  plan.make_barriers(32);
  const int warpgroup = warpgroup_of_thread();
  if (warpgroup == 2) {
    fewer_registers<kProducerRegisters>();
    if (threadIdx.x % kWarpgroup < 32) keys_producer(maps, a, walk, plan, memory);
  } else {
    more_registers<kConsumerRegisters>();
    keys_consumer(a, walk, plan, memory, warpgroup);
  }
#else
  __trap();  // built for another GPU than the one that was asked
#endif
}

}  // namespace norma::kernels::wgmma
