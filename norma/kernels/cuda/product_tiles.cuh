// Products on Hopper in bf16 whose tiles are worked on before they are stored (product_ring.cuh).
//
// C = A·B in tiles of 128 rows by 256 columns; a warpgroup multiplies 64 of the rows and works on
// them afterwards. A slot of the ring holds six squares (wgmma.cuh): for every 64 of the depth two
// of A and four of B, and after the last a few rounds for the finish, each with a slot of its own,
// in which the squares that the finish reads have come and from which those that it makes are
// stored. So they come while the last products are still at work, and go while the next round or
// the next tile's products are. A slot is free again when its stores have read it, which is looked
// at in the middle of the next round: at its end, the next tile's third block would come too late.
//
// What a finish provides:
//   struct Arg                               its numbers
//   kRounds, kInputs                         rounds; squares to bring
//   begin(own, column, shape, arg)           before a tile's products, by a warpgroup
//   load(maps, to, column, row, round, full) sends for the squares of a warpgroup; by one thread
//   work(spot, round, d, arg, halfway)       reads and writes squares, halfway() in between
//   store(maps, spot, round, arg)            stores squares; by one thread
//   after(spot, round, shape, arg)           once all of the warpgroup have worked
#pragma once

#include "norma/kernels/cuda/product_ring.cuh"

namespace norma::kernels::products {

using Slots = SquareSlots;
inline constexpr int kPartBytes = kSixSquares / 2;  // a warpgroup's squares of a slot
inline constexpr int kOwnBytes = 2 * kSquareBytes;  // a warpgroup's beside the ring
inline constexpr int kBarriersAt = Slots::kBytes + 2 * kOwnBytes;
inline constexpr int kBytes = kBarriersAt + 8 * Slots::kBarriers;
using WholeTiles = Tiles<kTileColumns, kSide>;

/// A warpgroup's part of a tile and of shared memory.
struct Spot {
  unsigned slot;  // three squares of the round
  unsigned char* own;
  int row;
  int column;
};

/// The address of memory that `own` points to.
__device__ inline unsigned square_of(const unsigned char* own, int i) {
  return shared_address(own) + static_cast<unsigned>(i) * kSquare;
}
template <class Finish>
__device__ inline void produce(const Maps& maps, const Shape& s, const Slots& ring) {
  const unsigned rank = rank_in_cluster();
  const WholeTiles tiles = WholeTiles::of(s);
  Place<Slots::kStages> place;
  for (int t = cluster_of_block(); t < tiles.total; t += clusters_of_grid()) {
    const int tile = t % tiles.across;
    const int row = tiles.row(t);
    for (int b = 0; b < tiles.blocks; ++b, place.next()) {
      tile_copy::wait(ring.empty(place.stage), place.phase ^ 1U);
      const unsigned full = ring.full(place.stage);
      const unsigned to = ring.slot(place.stage);
      tile_copy::arrive_expecting(full, kSixSquares);
      tile_copy::copy_box(to, &maps.a, b * kSide, row, 0, full);
      const unsigned half = to + (2 + 2 * rank) * kSquare;
      const int column = tile * kTileColumns + static_cast<int>(rank) * kTileColumns / 2;
      tile_copy::copy_box_to_both(half, &maps.b, column, b * kSide, 0, full);
      tile_copy::copy_box_to_both(half + kSquare, &maps.b, column + kSide, b * kSide, 0, full);
    }
    for (int r = 0; r < Finish::kRounds; ++r, place.next()) {
      tile_copy::wait(ring.empty(place.stage), place.phase ^ 1U);
      const unsigned full = ring.full(place.stage);
      tile_copy::arrive_expecting(full, 2 * Finish::kInputs * kSquare);
      for (int w = 0; w < 2; ++w) {
        const unsigned to = ring.slot(place.stage) + static_cast<unsigned>(w * kPartBytes);
        Finish::load(maps, to, tile * kTileColumns, row + w * kSide, r, full);
      }
    }
  }
}

template <class Finish>
__device__ inline void consume(const Maps& maps,
                               const Shape& s,
                               const typename Finish::Arg& arg,
                               const Slots& ring,
                               unsigned char* memory,
                               int warpgroup) {
  const WholeTiles tiles = WholeTiles::of(s);
  const bool leader = threadIdx.x % kWarpgroup == 0;
  Place<Slots::kStages> place;
  int storing = -1;  // the slot of the last round, until its stores have read it
  const auto free_stored = [&] {
    if (storing >= 0 && leader) {
      tile_copy::wait_until_read<0>();
      ring.release_for_all(storing);
    }
    storing = -1;
  };
  float d[kTileColumns / 2];
  for (int t = cluster_of_block(); t < tiles.total; t += clusters_of_grid()) {
    Spot spot{.slot = 0,
              .own = memory + Slots::kBytes + warpgroup * kOwnBytes,
              .row = tiles.row(t) + warpgroup * kSide,
              .column = tiles.column(t)};
    Finish::begin(spot.own, spot.column, s, arg);
    const int last = multiply_blocks(
        ring,
        place,
        warpgroup,
        tiles.blocks,
        [&](unsigned left, unsigned right, int b) {
#pragma unroll
          for (int k = 0; k < kSide / 16; ++k) {
            wgmma::multiply<true>(
                d, wgmma::rows_step(left, k), wgmma::turned_step(right, k), b | k);
          }
        },
        free_stored);
    wgmma::wait<0>();
    wgmma::arrived(d);
    ring.release(last);
    meet(warpgroup);  // what the leader waited for and what begin() wrote is true for all
#pragma unroll
    for (int r = 0; r < Finish::kRounds; ++r, place.next()) {
      tile_copy::wait(ring.full(place.stage), place.phase);
      spot.slot = ring.slot(place.stage) + static_cast<unsigned>(warpgroup * kPartBytes);
      Finish::work(spot, r, d, arg, free_stored);
      tile_copy::show_to_engine();
      meet(warpgroup);
      if (leader) {
        Finish::store(maps, spot, r, arg);
        tile_copy::close_stores();
      }
      Finish::after(spot, r, s, arg);
      storing = place.stage;
    }
  }
  if (leader) tile_copy::wait_until_stored();
}

template <class Finish>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(2, 1, 1)
    product_kernel(const __grid_constant__ Maps maps,
                   const Shape s,
                   const typename Finish::Arg arg) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  unsigned char* const memory = tile_memory();
  const unsigned base = shared_address(memory);
  const Slots ring{base, base + kBarriersAt};
  ring.start();
  const int warpgroup = wgmma::warpgroup_of_thread();
  if (warpgroup == 2) {
    wgmma::fewer_registers<kProducerRegisters>();
    if (threadIdx.x % kWarpgroup == 0) produce<Finish>(maps, s, ring);
  } else {
    wgmma::more_registers<kConsumerRegisters>();
    consume<Finish>(maps, s, arg, ring, memory, warpgroup);
  }
  meet_cluster();  // a block that is gone could not be sent to any more
#else
  __trap();  // built for another GPU than the one that was asked
#endif
}

template <class Finish>
void launch_product(const char* what, const Plan& plan, const typename Finish::Arg& arg) {
  const Index blocks = device::multiprocessors() / 2 * 2;
  launch_tiles(what, blocks, kThreads, kBytes, product_kernel<Finish>, plan.maps, plan.shape, arg);
}

}  // namespace norma::kernels::products
