// SwiGLU and GEGLU on the tiles of the product before them, on Hopper in bf16 (product_ring.cuh).
//
// [u, g] = x·upᵀ in tiles of 128 rows by 256 columns: 128 of u and the same of g beside them. Two
// warpgroups multiply, 64 rows each, leave what they have in shared memory, rounded, and go on with
// the next tile. Three warps finish it meanwhile, a row of u, g and y at a time as it lies in
// memory, so that products do not wait for the gate. Since those 64 KiB are missing for the ring,
// its slots are small: for 32 of the depth two strips of x and four of up (wgmma.cuh).
//
// Three warps keep up with one gate for two numbers of the product; the gradients, which have one
// for each and read as much as they write, would make the products wait (product_tiles.cuh).
#pragma once

#include "norma/kernels/cuda/activation_math.cuh"
#include "norma/kernels/cuda/product_ring.cuh"

namespace norma::kernels::products::gated {

using wgmma::kStripBytes;

inline constexpr int kFinishers = 3;                   // warps; the sender's comes after them
inline constexpr int kHalfColumns = kTileColumns / 2;  // of u, and of g
inline constexpr int kDeep = 32;
inline constexpr int kSlotBytes = 6 * kStripBytes;
using Slots = Ring<6, kSlotBytes>;
inline constexpr int kHalfBytes = 4 * kSquareBytes;
inline constexpr int kBarriersAt = Slots::kBytes + 2 * kHalfBytes;
inline constexpr int kBytes = kBarriersAt + 8 * (Slots::kBarriers + 4);
using GatedTiles = Tiles<kHalfColumns, kDeep>;

struct Arg {
  Rows<Bf16> u;
  Rows<Bf16> g;
  Rows<Bf16> y;
  const float* s_u;  // null: ones
  const float* s_v;
  float u_factor;
  float g_factor;
};

/// What lies where in shared memory.
struct Layout {
  unsigned char* memory;

  __device__ unsigned at(int byte) const {
    return shared_address(memory) + static_cast<unsigned>(byte);
  }
  __device__ Slots slots() const { return {at(0), at(kBarriersAt)}; }
  /// A warpgroup's half of a tile: 64 rows in two squares of u and two of g.
  __device__ unsigned char* half(int i) const { return memory + Slots::kBytes + i * kHalfBytes; }
  /// Whether a half is there, and whether it was read.
  __device__ unsigned full(int half) const {
    return at(kBarriersAt + 8 * (Slots::kBarriers + half));
  }
  __device__ unsigned empty(int half) const { return full(2 + half); }

  __device__ void make_barriers() const {
    if (threadIdx.x == 0) {
      slots().make_barriers();
      for (int i = 0; i < 2; ++i) {
        tile_copy::make_barrier(full(i), kWarpgroup);
        tile_copy::make_barrier(empty(i), kFinishers * 32);
      }
      tile_copy::publish_barriers();
    }
    meet_cluster();
  }
};

/// By one thread: sends for the factors of all tiles. One block of the cluster brings rows of up
/// that make u, the other those that make g.
__device__ inline void send(const Maps& maps, const Shape& s, const Layout& at) {
  const auto rank = static_cast<int>(rank_in_cluster());
  const GatedTiles tiles = GatedTiles::of(s);
  const Slots ring = at.slots();
  Place<Slots::kStages> place;
  for (int t = cluster_of_block(); t < tiles.total; t += clusters_of_grid()) {
    for (int b = 0; b < tiles.blocks; ++b, place.next()) {
      tile_copy::wait(ring.empty(place.stage), place.phase ^ 1U);
      const unsigned full = ring.full(place.stage);
      const unsigned to = ring.slot(place.stage);
      tile_copy::arrive_expecting(full, kSlotBytes);
      tile_copy::copy_box(to, &maps.a, b * kDeep, tiles.row(t), 0, full);
      tile_copy::copy_box_to_both(to + static_cast<unsigned>((2 + 2 * rank) * kStripBytes),
                                  &maps.b,
                                  b * kDeep,
                                  rank * s.columns + tiles.column(t),
                                  0,
                                  full);
    }
  }
}

__device__ inline void multiply(const Shape& s, const Layout& at, int warpgroup) {
  const GatedTiles tiles = GatedTiles::of(s);
  const Slots ring = at.slots();
  const unsigned to = shared_address(at.half(warpgroup));
  Place<Slots::kStages> place;
  unsigned phase = 0;
  float d[kHalfColumns];
  for (int t = cluster_of_block(); t < tiles.total; t += clusters_of_grid(), phase ^= 1U) {
    const int last = multiply_blocks(
        ring,
        place,
        warpgroup,
        tiles.blocks,
        [&](unsigned left, unsigned right, int b) {
#pragma unroll
          for (int k = 0; k < kDeep / 16; ++k) {
            wgmma::multiply<false>(d,
                                   wgmma::rows_step_of_strips(left, k),
                                   wgmma::rows_step_of_strips(right, k),
                                   b | k);
          }
        },
        [] {});
    tile_copy::wait(at.empty(warpgroup), phase ^ 1U);
    wgmma::wait<0>();
    wgmma::arrived(d);
    ring.release(last);
#pragma unroll
    for (int k = 0; k < 2 * kHalfColumns / 16; ++k) wgmma::store_rounded(to, k, d + 8 * k);
    tile_copy::arrive(at.full(warpgroup));
  }
}

/// Which of the finishers this warp is. A lane has eight columns, in one of two rows.
__device__ inline int finisher() { return static_cast<int>(threadIdx.x) % kWarpgroup / 32; }
inline constexpr int kChunks = kHalfColumns / 8;
__device__ inline int chunk() { return wgmma::lane() % kChunks; }
__device__ inline int line() { return wgmma::lane() / kChunks; }

/// Eight columns of a row of a half: of u, or of g.
__device__ inline Pack<Bf16, 8> read_half(const unsigned char* half, int row, int chunk_of_row) {
  const unsigned char* from =
      half + chunk_of_row / 8 * kSquareBytes + row * 128 + ((chunk_of_row % 8) ^ (row % 8)) * 16;
  return load_pack<8>(reinterpret_cast<const Bf16*>(from));
}

/// What u and g of this thread's columns are multiplied by.
struct Factors {
  float u[8];
  float g[8];
  __device__ Factors(const Arg& arg, const Shape& s, int column) {
    const bool there = column < s.columns;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      u[i] = arg.u_factor * (there && arg.s_u != nullptr ? arg.s_u[column + i] : 1.0f);
      g[i] = arg.g_factor * (there && arg.s_v != nullptr ? arg.s_v[column + i] : 1.0f);
    }
  }
};

template <Activation kAct>
__device__ inline void finish(const Shape& s, const Arg& arg, const Layout& at) {
  constexpr int kAtOnce = 4;  // rows, so that their reads do not wait for each other
  constexpr int kStep = 2 * kFinishers;
  const GatedTiles tiles = GatedTiles::of(s);
  unsigned phase = 0;
  for (int t = cluster_of_block(); t < tiles.total; t += clusters_of_grid(), phase ^= 1U) {
    const int column = tiles.column(t) + 8 * chunk();
    const Factors by(arg, s, column);
    for (int half = 0; half < 2; ++half) {
      const int first = tiles.row(t) + half * kSide;
      const int end = column < s.columns ? min(kSide, s.rows - first) : 0;
      tile_copy::wait(at.full(half), phase);
#pragma unroll 1
      for (int r = 2 * finisher() + line(); r < end; r += kAtOnce * kStep) {
        Pack<Bf16, 8> both[kAtOnce][2];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          const int row = min(r + j * kStep, kSide - 1);
          both[j][0] = read_half(at.half(half), row, chunk());
          both[j][1] = read_half(at.half(half), row, kChunks + chunk());
        }
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          if (r + j * kStep >= end) break;
          float u[8];
          float g[8];
          unpack(both[j][0], u);
          unpack(both[j][1], g);
          // Of the rounded values: made again from what was stored, y has the same bits.
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            u[i] = by.u[i] * u[i] * activate<kAct>(by.g[i] * g[i]).value;
          }
          const Index row = first + r + j * kStep;
          store_pack(arg.u.row(row) + column, both[j][0]);
          store_pack(arg.g.row(row) + column, both[j][1]);
          write_pack(arg.y.row(row) + column, u);
        }
      }
      tile_copy::arrive(at.empty(half));
    }
  }
}

template <Activation kAct>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(2, 1, 1)
    gated_kernel(const __grid_constant__ Maps maps,
                 const Shape s,
                 const __grid_constant__ Arg arg) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  unsigned char* const memory = tile_memory();
  const Layout at{memory};
  at.make_barriers();
  const int warpgroup = wgmma::warpgroup_of_thread();
  if (warpgroup < 2) {
    multiply(s, at, warpgroup);
  } else if (finisher() < kFinishers) {
    finish<kAct>(s, arg, at);
  } else if (wgmma::lane() == 0) {
    send(maps, s, at);
  }
  meet_cluster();  // a block that is gone could not be sent to any more
#else
  __trap();  // built for another GPU than the one that was asked
#endif
}

}  // namespace norma::kernels::products::gated
