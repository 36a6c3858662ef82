// The odds of classes on the tiles of the product that makes logits (product_ring.cuh). A warpgroup
// has 64 rows by 256 columns of a tile in its registers, and stores odds through two squares of its
// own, so that the ring goes on filling.
#pragma once

#include <cstdint>

#include "norma/kernels/cuda/head_odds.cuh"
#include "norma/kernels/cuda/product_ring.cuh"

namespace norma::kernels::products::odds {

using Slots = SquareSlots;
inline constexpr int kOwnBytes = 2 * kSquareBytes;
inline constexpr int kBarriersAt = Slots::kBytes + 2 * kOwnBytes;
inline constexpr int kBytes = kBarriersAt + 8 * Slots::kBarriers;
static_assert(kOddsTile == 2 * kTileRows && kOddsTile == kTileColumns);

struct Arg {
  OddsNotes notes;
  const std::int32_t* targets;
};

/// The tiles of a cluster. They go down so many rows before they come to the next columns: a cache
/// that holds these rows then sees W, which none holds, once for all of them.
struct OddsTiles {
  static constexpr int kBand = 16;
  int across;
  int down;
  int blocks;  // of the depth
  __device__ static OddsTiles of(const Shape& s) {
    return {static_cast<int>(odds_tiles(s.columns)),
            static_cast<int>(odds_tiles(s.rows)),
            (s.depth + kSide - 1) / kSide};
  }
  __device__ int total() const { return across * down; }
  __device__ int band(int t) const { return t / (kBand * across) * kBand; }
  __device__ int height(int t) const { return min(kBand, down - band(t)); }
  /// Which tile of rows, and which of columns.
  __device__ int row(int t) const { return band(t) + t % (kBand * across) % height(t); }
  __device__ int column(int t) const { return t % (kBand * across) / height(t); }
};

/// f(tile) for those of this cluster's whose turn it is. Every role of both blocks meets the same.
template <OddsTurn kTurn>
__device__ inline void for_each_tile(const OddsTiles& tiles, const Arg& arg, const auto& f) {
  for (int t = cluster_of_block(); t < tiles.total(); t += clusters_of_grid()) {
    if (kTurn == OddsTurn::all || arg.notes.in_excess[tiles.row(t)] != 0) f(t);
  }
}

template <OddsTurn kTurn>
__device__ inline void send(const Maps& maps, const Shape& s, const Arg& arg, const Slots& ring) {
  const auto rank = static_cast<int>(rank_in_cluster());
  const OddsTiles tiles = OddsTiles::of(s);
  Place<Slots::kStages> place;
  for_each_tile<kTurn>(tiles, arg, [&](int t) {
    const int row = tiles.row(t) * 2 * kTileRows + rank * kTileRows;
    const int column = tiles.column(t) * kTileColumns + rank * kTileColumns / 2;
    for (int b = 0; b < tiles.blocks; ++b, place.next()) {
      tile_copy::wait(ring.empty(place.stage), place.phase ^ 1U);
      const unsigned full = ring.full(place.stage);
      const unsigned to = ring.slot(place.stage);
      tile_copy::arrive_expecting(full, kSixSquares);
      tile_copy::copy_box(to, &maps.a, b * kSide, row, 0, full);
      const unsigned half = to + static_cast<unsigned>(2 + 2 * rank) * kSquare;
      tile_copy::copy_box_to_both(half, &maps.b, b * kSide, column, 0, full);
    }
  });
}

/// What a thread knows of its two rows of a tile.
struct OwnRows {
  int row[2];
  bool there[2];
  float reference[2];
  unsigned hit[2];  // the target, from the tile's first column on; beyond the tile if not in it

  template <OddsTurn kTurn>
  __device__ static OwnRows of(const Arg& arg, const Shape& s, int row, int column) {
    OwnRows own;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      own.row[r] = row + wgmma::row_of(r);
      own.there[r] = own.row[r] < s.rows;
      own.reference[r] = INFINITY;
      own.hit[r] = ~0U;
      if (!own.there[r]) continue;
      const int target = arg.targets[own.row[r]];
      if (target >= 0) own.hit[r] = static_cast<unsigned>(target - column);
      own.reference[r] =
          kTurn != OddsTurn::again
              ? arg.notes.references[own.row[r]]
              : reference_of(target, s.columns, kLog2E * number_of(arg.notes.largest[own.row[r]]));
    }
    return own;
  }
};

/// The lanes of a row: four neighbours.
inline constexpr int kLanesOfRow = 4;

/// Tells the logits of targets, and takes them and the columns that there are not from the rest.
__device__ inline void leave_out(float (&d)[kTileColumns / 2],
                                 const OwnRows& own,
                                 int columns_there,
                                 float* hits) {
#pragma unroll
  for (int n = 0; n < kTileColumns / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = wgmma::column_of(n) + i % 2;
      const bool hit = own.hit[i / 2] == static_cast<unsigned>(column);
      if (hit) hits[own.row[i / 2]] = d[4 * n + i];
      if (hit || column >= columns_there) d[4 * n + i] = -INFINITY;
    }
  }
}

__device__ inline void tell_largest(const float (&d)[kTileColumns / 2],
                                    const OwnRows& own,
                                    int columns_there,
                                    int* largest) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float top = -INFINITY;
#pragma unroll
    for (int n = 0; n < kTileColumns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (wgmma::column_of(n) + e < columns_there) top = fmaxf(top, d[4 * n + 2 * r + e]);
      }
    }
    if (own.there[r]) atomicMax(largest + own.row[r], ordered_bits(top));
  }
}

/// 2^(log2(e)·z - reference) without the unit for such functions, which alone would take as long as
/// a sixth of a tile's products; between 2^-126 and 2^127, and good to 2e-5 where the reference is
/// within ±200 bits, to 7e-4 at ±2^14.
struct WorkedOdds {
  static constexpr float kLeast = -126;
  static constexpr float kRange = 253;
  float shift;

  __device__ explicit WorkedOdds(float reference) : shift((-kLeast - reference) / kRange) {}
  __device__ float operator()(float z) const {
    // Whole numbers of bits, in the lowest bits of a float, from where they go to the exponent.
    constexpr float kWhole = 3 << 22;
    constexpr float kSeries[] = {
        0.99999928F, 0.69312179F, 0.24024744F, 0.05591786F, 0.00957010F};  // of 2^x, |x| <= 1/2
    const float part = __saturatef(fmaf(z, kLog2E / kRange, shift));
    const float whole = fmaf(part, kRange, kWhole + kLeast);
    const float x = fmaf(part, kRange, (kWhole + kLeast) - whole);
    float power = kSeries[4];
#pragma unroll
    for (int i = 3; i >= 0; --i) power = fmaf(power, x, kSeries[i]);
    return __int_as_float((__float_as_int(whole) << 23) + __float_as_int(power));
  }
};

template <OddsTurn kTurn>
__device__ inline void multiply(const Maps& maps,
                                const Shape& s,
                                const Arg& arg,
                                const Slots& ring,
                                unsigned own_squares,
                                int warpgroup) {
  const OddsTiles tiles = OddsTiles::of(s);
  const bool leader = threadIdx.x % kWarpgroup == 0;
  Place<Slots::kStages> place;
  float d[kTileColumns / 2];
  for_each_tile<kTurn>(tiles, arg, [&](int t) {
    const int row = tiles.row(t) * 2 * kTileRows + static_cast<int>(rank_in_cluster()) * kTileRows +
                    warpgroup * kSide;
    const int column = tiles.column(t) * kTileColumns;
    const OwnRows own = OwnRows::of<kTurn>(arg, s, row, column);
    const int last = multiply_blocks(
        ring,
        place,
        warpgroup,
        tiles.blocks,
        [&](unsigned left, unsigned right, int b) {
#pragma unroll
          for (int k = 0; k < kSide / 16; ++k) {
            wgmma::multiply<false>(d, wgmma::rows_step(left, k), wgmma::rows_step(right, k), b | k);
          }
        },
        [] {});
    wgmma::wait<0>();
    wgmma::arrived(d);
    ring.release(last);

    const int columns_there = s.columns - column;
    if constexpr (kTurn == OddsTurn::largest) {
      tell_largest(d, own, columns_there, arg.notes.largest);
      return;
    }
    const bool special = min(own.hit[0], own.hit[1]) < kTileColumns || columns_there < kTileColumns;
    if (__any_sync(~0U, special)) leave_out(d, own, columns_there, arg.notes.hits);
    const WorkedOdds worked[2] = {WorkedOdds(own.reference[0]), WorkedOdds(own.reference[1])};
    float sums[2] = {0, 0};
#pragma unroll
    for (int q = 0; q < kTileColumns / kSide; ++q) {
      const unsigned square = own_squares + static_cast<unsigned>(q % 2) * kSquare;
#pragma unroll
      for (int k = 0; k < kSide / 16; ++k) {
        const float* const z = d + q * kSide / 2 + 8 * k;
        float odds[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const int r = i / 2 % 2;
          if (kTurn == OddsTurn::again) {
            odds[i] = quick_exp2(distance(kLog2E, z[i], own.reference[r]));
          } else if (i == 3 || i == 5) {  // a quarter: so both units are done at the same time
            odds[i] = worked[r](z[i]);
          } else {
            odds[i] = quick_exp2(fmaf(kLog2E, z[i], -own.reference[r]));
          }
          sums[r] += odds[i];
        }
        wgmma::store_rounded(square, k, odds);
      }
      tile_copy::show_to_engine();
      if (leader) tile_copy::wait_until_read<0>();  // the other square is free for the next
      meet(warpgroup);
      if (!leader) continue;
      tile_copy::store_box(&maps.out[0], column + q * kSide, row, 0, square);
      tile_copy::close_stores();
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float sum = warp_sum<kLanesOfRow>(sums[r]);
      if (!own.there[r] || wgmma::lane() % kLanesOfRow != 0) continue;
      arg.notes.partials[static_cast<Index>(tiles.column(t)) * s.rows + own.row[r]] = sum;
      if constexpr (kTurn == OddsTurn::all) {
        const float reference = own.reference[r];
        const bool far = !(fabsf(reference) < kOddsFar) && reference != INFINITY;
        if (far || !(sum < kOddsExcess)) arg.notes.in_excess[tiles.row(t)] = 1;
      }
    }
  });
  if (leader) tile_copy::wait_until_stored();
}

template <OddsTurn kTurn>
__device__ inline bool has_turn(const Shape& s, const Arg& arg) {
  if (kTurn == OddsTurn::all) return true;
  bool any = false;
  for (int i = static_cast<int>(threadIdx.x); i < odds_tiles(s.rows); i += kThreads) {
    any = any || arg.notes.in_excess[i] != 0;
  }
  return __syncthreads_or(static_cast<int>(any)) != 0;
}

template <OddsTurn kTurn>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(2, 1, 1)
    odds_kernel(const __grid_constant__ Maps maps, const Shape s, const Arg arg) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  unsigned char* const memory = tile_memory();
  if (!has_turn<kTurn>(s, arg)) return;  // both blocks of a cluster
  const unsigned base = shared_address(memory);
  const Slots ring{base, base + kBarriersAt};
  ring.start();
  const int warpgroup = wgmma::warpgroup_of_thread();
  if (warpgroup == 2) {
    wgmma::fewer_registers<kProducerRegisters>();
    if (threadIdx.x % kWarpgroup == 0) send<kTurn>(maps, s, arg, ring);
  } else {
    wgmma::more_registers<kConsumerRegisters>();
    const unsigned squares = base + static_cast<unsigned>(Slots::kBytes + warpgroup * kOwnBytes);
    multiply<kTurn>(maps, s, arg, ring, squares, warpgroup);
  }
  meet_cluster();  // a block that is gone could not be sent to any more
#else
  __trap();  // built for another GPU than the one that was asked
#endif
}

}  // namespace norma::kernels::products::odds
