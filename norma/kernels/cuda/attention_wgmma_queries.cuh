// dq on Hopper, a tile of queries at a time, over the keys that they see.
//   S = q·kᵀ   P = 2^(scale·S - lse)   dP = dout·vᵀ   dS = P ∘ (dP - delta)   dq += dS·k
// At the end dq is multiplied by the head's factor. <q, Σ dS·k> is a row's share in that factor's
// gradient: Σ dS ∘ S.
#pragma once

#include "norma/kernels/cuda/attention_wgmma.cuh"

namespace norma::kernels::wgmma {

struct QueriesTile {
  int b, h, kv, first;  // first: the tile's first query
  int blocks;           // of 64 keys
  __device__ QueriesTile(const AttentionShape& s, const Tiles& at)
      : b(at.head() / static_cast<int>(s.heads)),
        h(at.head() % static_cast<int>(s.heads)),
        kv(h / static_cast<int>(s.heads / s.kv_heads)),
        first(at.tile() * kTile),
        blocks((static_cast<int>(s.keys) + kSide - 1) / kSide) {
    if (s.causal) blocks = min(blocks, first / kSide + 2);
  }
};

template <int kWidth>
__device__ void queries_producer(const Maps& maps,
                                 const AttentionShape& s,
                                 const Walk& walk,
                                 const Plan<kWidth>& plan) {
  Place<Plan<kWidth>::kStages> place;
  unsigned own_phase = 0;
  for (Tiles at(walk); at.there(); at.next()) {
    const QueriesTile tile(s, at);
    tile_copy::wait(plan.own_empty(), own_phase ^ 1U);
    own_phase ^= 1U;
    if (lane() == 0) copy_own(plan, &maps.q, &maps.dout, tile.h, tile.first, tile.b);
    for (int f = 0; f < tile.blocks; ++f) {
      tile_copy::wait(plan.empty(place.stage), place.phase ^ 1U);
      if (lane() == 0) {
        copy_block(plan, place.stage, &maps.k, &maps.v, tile.kv, f * kSide, tile.b);
      }
      __syncwarp();  // a lane two phases behind would wait for ever
      place.next();
    }
  }
}

/// P from S; a row sees the block's columns before its `end`.
template <bool kMasked>
__device__ inline void queries_probabilities(const float (&s)[kSide / 2],
                                             float scale,
                                             const float (&lse)[2],
                                             const int (&end)[2],
                                             float (&p)[kSide / 2]) {
#pragma unroll
  for (int i = 0; i < kSide / 2; ++i) {
    const int r = i / 2 % 2;
    p[i] = quick_exp2(fmaf(s[i], scale, -lse[r]));
    if constexpr (kMasked) {
      if (column_of(i / 4) + i % 2 >= end[r]) p[i] = 0;
    }
  }
}
/// dS from P and dP, rounded.
__device__ inline void queries_slopes(const float (&p)[kSide / 2],
                                      const float (&dp)[kSide / 2],
                                      const float (&delta)[2],
                                      unsigned (&ds)[kSide / 16][4]) {
#pragma unroll
  for (int n = 0; n < kSide / 8; ++n) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int i = 4 * n + 2 * r;
      ds[n / 2][n % 2 * 2 + r] =
          rounded_pair(p[i] * (dp[i] - delta[r]), p[i + 1] * (dp[i + 1] - delta[r]));
    }
  }
}

/// A row's share in the gradient of its head's factor, the same in its four lanes.
template <int kWidth>
__device__ inline float share_of(const unsigned (&q)[kWidth / 16][4],
                                 const float (&dq)[kWidth / 2],
                                 int r) {
  float sum = 0;
#pragma unroll
  for (int n = 0; n < kWidth / 8; ++n) {
    const unsigned both = q[n / 2][n % 2 * 2 + r];
    sum = fmaf(low_of(both), dq[4 * n + 2 * r], sum);
    sum = fmaf(high_of(both), dq[4 * n + 2 * r + 1], sum);
  }
  return warp_sum<4>(sum);
}

template <int kWidth>
__device__ void queries_consumer(const AttentionBackward<Bf16>& a,
                                 const Walk& walk,
                                 const Plan<kWidth>& plan,
                                 int warpgroup) {
  const AttentionShape& shape = a.shape;
  const unsigned own_q = plan.own_near(warpgroup);
  const unsigned own_dout = plan.own_far(warpgroup);
  Place<Plan<kWidth>::kStages> place;
  unsigned own_phase = 0;
  for (Tiles at(walk); at.there(); at.next()) {
    const QueriesTile tile(shape, at);
    const int first = tile.first + warpgroup * kSide;  // query
    const int count = min(kSide, static_cast<int>(shape.queries) - first);
    // The first warpgroup's queries come before the last keys; the second's may not exist.
    const int blocks = count <= 0 ? 0 : shape.causal ? first / kSide + 1 : tile.blocks;
    const Index number =
        (static_cast<Index>(tile.b) * shape.heads + tile.h) * shape.queries + first;
    const float factor = a.head_factor[tile.h];
    const float scale = factor * kLog2E;
    float lse[2];
    float delta[2];
    int end[2];  // in the last block
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const bool there = row_of(r) < count;
      lse[r] = there ? a.lse[number + row_of(r)] * kLog2E : INFINITY;
      delta[r] = there ? a.scratch[number + row_of(r)] : 0.0f;
      end[r] = shape.causal ? row_of(r) + 1 : static_cast<int>(shape.keys) - (blocks - 1) * kSide;
    }
    unsigned q[kWidth / 16][4];
    unsigned dout[kWidth / 16][4];
    tile_copy::wait(plan.own_full(), own_phase);
    own_phase ^= 1U;
    load_left(own_q, q);
    load_left(own_dout, dout);
    release(plan.own_empty());
    float dq[kWidth / 2] = {};
    if (blocks > 0) {
      float s[kSide / 2];
      float dp[kSide / 2];
      unsigned ds[kSide / 16][4] = {};
      int last = -1;  // stage of the block before
      tile_copy::wait(plan.full(place.stage), place.phase);
      arrived(dq);
      begin();
      multiply_rows<kWidth, true>(s, q, own_q, plan.near(place.stage));
      commit();
      multiply_rows<kWidth, true>(dp, dout, own_dout, plan.far(place.stage));
      commit();
      wait<1>();
      arrived(s);
      const auto step = [&](auto more) {
        const int stage = place.stage;
        place.next();
        // S is there; dq of the block before and dP are on their way.
        float p[kSide / 2];
        if (!more && (shape.causal || end[0] < kSide)) {
          queries_probabilities<true>(s, scale, lse, end, p);
        } else {
          queries_probabilities<false>(s, scale, lse, end, p);
        }
        wait<0>();
        arrived(dp);
        used(ds);
        if (last >= 0) release(plan.empty(last));
        last = stage;
        if constexpr (more) {
          tile_copy::wait(plan.full(place.stage), place.phase);
          begin();
          multiply_rows<kWidth, true>(s, q, own_q, plan.near(place.stage));
          commit();
        }
        queries_slopes(p, dp, delta, ds);
        if constexpr (more) {
          wait<0>();
          arrived(s);
        }
        begin();
        add_product<kWidth>(dq, ds, plan.near(stage));
        if constexpr (more) {
          multiply_rows<kWidth, true>(dp, dout, own_dout, plan.far(place.stage));
        }
        commit();
      };
      for (int f = 0; f + 1 < blocks; ++f) step(std::true_type{});
      step(std::false_type{});
      wait<0>();
      arrived(dq);
      used(ds);
      release(plan.empty(last));
    }
    for (int f = blocks; f < tile.blocks; ++f) {
      tile_copy::wait(plan.full(place.stage), place.phase);
      release(plan.empty(place.stage));
      place.next();
    }
    if (a.dhead_factor != nullptr) {
      float* shares = a.scratch + shape.batch * shape.heads * shape.queries;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float share = share_of<kWidth>(q, dq, r);
        if (lane() % 4 == 0 && row_of(r) < count) shares[number + row_of(r)] = share;
      }
    }
    if (a.dq) {
      const Index row = static_cast<Index>(tile.b) * shape.queries + first;
      const int width = static_cast<int>(shape.head_width);
      store_rows<kWidth>(a.dq, row, count, tile.h, width, a.dq_into, factor, dq);
    }
  }
}

template <int kWidth>
__global__ void __launch_bounds__(kThreads, 1) queries_kernel(const __grid_constant__ Maps maps,
                                                              const AttentionBackward<Bf16> a,
                                                              const Walk walk) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char memory[];
  const Plan<kWidth> plan(memory);
  plan.make_barriers(1);
  const int warpgroup = warpgroup_of_thread();
  if (warpgroup == 2) {
    fewer_registers<kProducerRegisters>();
    if (threadIdx.x % kWarpgroup < 32) queries_producer(maps, a.shape, walk, plan);
  } else {
    more_registers<kConsumerRegisters>();
    queries_consumer(a, walk, plan, warpgroup);
  }
#else
  __trap();  // built for another GPU than the one that was asked
#endif
}

}  // namespace norma::kernels::wgmma
