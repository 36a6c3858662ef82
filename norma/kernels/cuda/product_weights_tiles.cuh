// C = or += Aᵀ·B in tiles of 256 rows by 256 columns of a cluster (product_ring.cuh), a warpgroup
// 64 of the rows. A slot holds, for 64 of the depth, two squares of A and four of B; A's are 64 of
// the depth by 64 rows of C, so both factors are read turned.
//
// Parts of tiles (product_deal.cuh) go to a workspace, and a second kernel adds those of a tile in
// the order of the depth. Who does what depends on shape and number of clusters alone, so the same
// product has the same bits each time.
#pragma once

#include <cstddef>

#include "norma/kernels/cuda/product_deal.cuh"

namespace norma::kernels::products::weights {

using Slots = SquareSlots;
inline constexpr int kBytes = Slots::kBytes + 8 * Slots::kBarriers;

struct Result {
  float* data;
  Index stride;
  int rows;
  int columns;
  bool add;
};
/// Two neighbours of C, which it has both or none of.
__device__ inline float2* place_of(const Result& c, int row, int column) {
  if (row >= c.rows || column >= c.columns) return nullptr;
  return reinterpret_cast<float2*>(c.data + row * c.stride + column);
}
/// The four numbers of a thread (wgmma.cuh) in each of kCount times eight columns. All are read
/// before one is written, so that the reads do not wait for each other.
template <int kCount>
__device__ inline void put(const Result& c, int row, int column, const float4 (&sums)[kCount]) {
  float2 old[kCount][2] = {};
  if (c.add) {
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float2* from = place_of(c, row + wgmma::row_of(r), column + wgmma::column_of(n));
        if (from != nullptr) old[n][r] = *from;
      }
    }
  }
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float2* to = place_of(c, row + wgmma::row_of(r), column + wgmma::column_of(n));
      const float2 sum =
          r == 0 ? make_float2(sums[n].x, sums[n].y) : make_float2(sums[n].z, sums[n].w);
      if (to != nullptr) *to = make_float2(old[n][r].x + sum.x, old[n][r].y + sum.y);
    }
  }
}

// A part holds, for each of the four warpgroups of a cluster and each eight columns, four numbers
// of each thread.
inline constexpr int kEights = kTileColumns / 8;
inline constexpr Index kPartFours = Index{4} * kEights * kWarpgroup;
inline constexpr std::size_t kBytesOfPart = kPartFours * sizeof(float4);

__device__ inline Index four_at(int part, int quarter, int eight) {
  return part * kPartFours + (quarter * kEights + eight) * kWarpgroup +
         static_cast<int>(threadIdx.x) % kWarpgroup;
}
/// Where the rows and columns of a tile's quarter begin.
__device__ inline int row_of_quarter(const Deal& d, int tile, int quarter) {
  return (tile / d.across * 4 + quarter) * kSide;
}
__device__ inline int column_of_tile(const Deal& d, int tile) {
  return tile % d.across * kTileColumns;
}

__device__ inline void bring(const Maps& maps, const Deal& deal, const Slots& ring) {
  const auto rank = static_cast<int>(rank_in_cluster());
  Place<Slots::kStages> place;
  for (int i = 0; i < turns(deal); ++i) {
    const Turn turn = turn_of(deal, cluster_of_block(), i);
    const int row = row_of_quarter(deal, turn.tile, 2 * rank);
    const int column = column_of_tile(deal, turn.tile) + rank * kTileColumns / 2;
    for (int b = turn.first; b < turn.end; ++b, place.next()) {
      tile_copy::wait(ring.empty(place.stage), place.phase ^ 1U);
      const unsigned full = ring.full(place.stage);
      const unsigned left = ring.slot(place.stage);
      const unsigned right = left + static_cast<unsigned>(2 + 2 * rank) * kSquare;
      tile_copy::arrive_expecting(full, kSixSquares);
      for (int q = 0; q < 2; ++q) {
        const unsigned next = static_cast<unsigned>(q) * kSquare;
        tile_copy::copy_box(left + next, &maps.a, row + q * kSide, b * kSide, 0, full);
        tile_copy::copy_box_to_both(right + next, &maps.b, column + q * kSide, b * kSide, 0, full);
      }
    }
  }
}

__device__ inline void work(
    const Deal& deal, const Result& c, float4* workspace, const Slots& ring, int warpgroup) {
  const int quarter = 2 * static_cast<int>(rank_in_cluster()) + warpgroup;
  Place<Slots::kStages> place;
  float d[kTileColumns / 2];
  for (int i = 0; i < turns(deal); ++i) {
    const Turn turn = turn_of(deal, cluster_of_block(), i);
    if (turn.first == turn.end) continue;
    const int last = multiply_blocks(
        ring,
        place,
        warpgroup,
        turn.end - turn.first,
        [&](unsigned left, unsigned right, int b) {
#pragma unroll
          for (int k = 0; k < kSide / 16; ++k) {
            wgmma::multiply<true, true>(
                d, wgmma::turned_step(left, k), wgmma::turned_step(right, k), b | k);
          }
        },
        [] {});
    wgmma::wait<0>();
    wgmma::arrived(d);
    ring.release(last);
    constexpr int kAtOnce = 8;  // eights of columns
    const bool all = turn.first == 0 && turn.end == deal.blocks;
#pragma unroll
    for (int n = 0; n < kEights; n += kAtOnce) {
      float4 fours[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const float* from = d + 4 * (n + j);
        fours[j] = make_float4(from[0], from[1], from[2], from[3]);
      }
      if (all) {
        put(c,
            row_of_quarter(deal, turn.tile, quarter),
            column_of_tile(deal, turn.tile) + 8 * n,
            fours);
      } else {
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          workspace[four_at(turn.part, quarter, n + j)] = fours[j];
        }
      }
    }
  }
}

inline __global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(2, 1, 1) weights_kernel(
    const __grid_constant__ Maps maps, const Deal deal, const Result c, float4* workspace) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  unsigned char* const memory = tile_memory();
  const unsigned base = shared_address(memory);
  const Slots ring{base, base + Slots::kBytes};
  ring.start();
  const int warpgroup = wgmma::warpgroup_of_thread();
  if (warpgroup == 2) {
    wgmma::fewer_registers<kProducerRegisters>();
    if (threadIdx.x % kWarpgroup == 0) bring(maps, deal, ring);
  } else {
    wgmma::more_registers<kConsumerRegisters>();
    work(deal, c, workspace, ring, warpgroup);
  }
  meet_cluster();  // a block that is gone could not be sent to any more
#else
  __trap();  // built for another GPU than the one that was asked
#endif
}

inline constexpr int kEightsOfBlock = 4;
inline constexpr int kBlocksOfTile = 4 * kEights / kEightsOfBlock;

inline __global__ void __launch_bounds__(kWarpgroup)
    add_parts_kernel(const Deal deal, const Result c, const float4* workspace) {
  const int cut = static_cast<int>(blockIdx.x) / kBlocksOfTile;
  const int quarter = static_cast<int>(blockIdx.x) % kBlocksOfTile / (kBlocksOfTile / 4);
  const int eight = static_cast<int>(blockIdx.x) % (kBlocksOfTile / 4) * kEightsOfBlock;
  const int count = parts(deal, cut);
  float4 sums[kEightsOfBlock] = {};
#pragma unroll 4
  for (int i = 0; i < count; ++i) {
    const int part = part_of(deal, cut, i);
#pragma unroll
    for (int j = 0; j < kEightsOfBlock; ++j) {
      const float4 more = workspace[four_at(part, quarter, eight + j)];
      sums[j].x += more.x;
      sums[j].y += more.y;
      sums[j].z += more.z;
      sums[j].w += more.w;
    }
  }
  const int tile = deal.whole * deal.clusters + cut;
  put(c, row_of_quarter(deal, tile, quarter), column_of_tile(deal, tile) + 8 * eight, sums);
}

}  // namespace norma::kernels::products::weights
