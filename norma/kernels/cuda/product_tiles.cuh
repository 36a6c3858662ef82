// Products on Hopper in bf16 whose tiles are worked on before they are stored.
//
// C = A·B or A·Bᵀ in tiles of 128 rows by 256 columns. A block stays on its multiprocessor and
// walks over tiles; two blocks of a cluster have the same columns and neighbouring rows, and each
// brings half of B to both. Two warpgroups multiply, 64 rows each; one thread of a third sends for
// what they need. It comes through a ring of slots of six squares (wgmma.cuh): for every 64 of the
// depth two squares of A and four of B, and after the last a few rounds for the finish, each with a
// slot of its own, in which the squares that the finish reads have come and from which those that
// it makes are stored. So they come while the last products are still at work, and go while the
// next tile's begin.
//
// What a finish provides:
//   struct Arg                               its numbers
//   kColumns, kRounds, kInputs               columns of C in a tile; rounds; squares to bring
//   first_row(shape, tile, half)             where half of the tile's rows of Bᵀ begin, if not
//   turned begin(own, column, shape, arg)           before a tile's products, by a warpgroup
//   load(maps, to, column, row, round, full) sends for the squares of a warpgroup; by one thread
//   work(spot, round, d, arg)                reads and writes squares
//   store(maps, spot, round, arg)            stores squares; by one thread
//   after(spot, round, shape, arg)           once all of the warpgroup have worked
#pragma once

#include "norma/kernels/cuda/tile_copy.cuh"
#include "norma/kernels/cuda/wgmma.cuh"

namespace norma::kernels::products {

using tile_copy::Place;
using wgmma::kSide;
using wgmma::kSquareBytes;
using wgmma::kWarpgroup;

inline constexpr int kThreads = 3 * kWarpgroup;
inline constexpr int kTileRows = 2 * kSide;
inline constexpr int kTileColumns = 4 * kSide;
inline constexpr int kStages = 4;
inline constexpr int kSlotBytes = 6 * kSquareBytes;
inline constexpr int kPartBytes = kSlotBytes / 2;   // a warpgroup's squares of a slot
inline constexpr int kOwnBytes = 2 * kSquareBytes;  // a warpgroup's beside the ring
inline constexpr int kOwnAt = kStages * kSlotBytes;
inline constexpr int kBarriersAt = kOwnAt + 2 * kOwnBytes;
inline constexpr int kBytes = kBarriersAt + 8 * 2 * kStages;
// Arrivals that free a slot: the four warps of two warpgroups of both blocks.
inline constexpr int kReaders = 16;
// As in attention_wgmma.cuh: together not more than the block began with.
inline constexpr int kProducerRegisters = 40;
inline constexpr int kConsumerRegisters = 232;

struct Maps {
  CUtensorMap a;       // boxes of 64 columns and 128 rows
  CUtensorMap b;       // the same for Bᵀ; squares where B is turned
  CUtensorMap in[2];   // squares
  CUtensorMap out[3];  // squares
};
struct Shape {
  int rows;
  int columns;  // of one of the results
  int depth;
};
/// A warpgroup's part of a tile and of shared memory.
struct Spot {
  unsigned slot;  // three squares of the round
  unsigned char* own;
  int row;
  int column;
};

inline constexpr unsigned kSquare = kSquareBytes;  // as a step between addresses

/// The address of memory that `own` points to.
__device__ inline unsigned square_of(const unsigned char* own, int i) {
  return tile_copy::shared_address(own) + static_cast<unsigned>(i) * kSquare;
}
/// The warps of a warpgroup wait for each other.
__device__ inline void meet(int warpgroup) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(warpgroup + 1), "n"(kWarpgroup) : "memory");
}
__device__ inline void meet_cluster() {
  asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;\n" ::: "memory");
}
__device__ inline unsigned rank_in_cluster() {
  unsigned rank = 0;
  asm("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
  return rank;
}

/// The ring and its barriers.
struct Ring {
  unsigned base;
  __device__ unsigned slot(int i) const { return base + static_cast<unsigned>(i * kSlotBytes); }
  __device__ unsigned full(int i) const {
    return base + static_cast<unsigned>(kBarriersAt + 8 * i);
  }
  __device__ unsigned empty(int i) const { return full(kStages + i); }
  __device__ void make_barriers() const {
    if (threadIdx.x == 0) {
      for (int i = 0; i < kStages; ++i) {
        tile_copy::make_barrier(full(i), 1);
        tile_copy::make_barrier(empty(i), kReaders);
      }
      tile_copy::publish_barriers();
    }
    meet_cluster();
  }
  /// By all lanes of a warp: it has read the slot.
  __device__ void release(int i) const {
    __syncwarp();
    if (wgmma::lane() < 2) tile_copy::arrive_at(empty(i), static_cast<unsigned>(wgmma::lane()));
  }
  /// By one thread, for the four warps of its warpgroup.
  __device__ void release_for_all(int i) const {
    tile_copy::arrive_at<4>(empty(i), 0);
    tile_copy::arrive_at<4>(empty(i), 1);
  }
};

/// The tiles of a cluster, one after the other; columns first, so that the rows of A stay near.
struct Tiles {
  int across;
  int total;
  int blocks;  // of 64 in the depth
  template <class Finish>
  __device__ static Tiles of(const Shape& s) {
    const int across = (s.columns + Finish::kColumns - 1) / Finish::kColumns;
    const int down = (s.rows + 2 * kTileRows - 1) / (2 * kTileRows);
    return {across, across * down, (s.depth + kSide - 1) / kSide};
  }
  __device__ static int first() { return static_cast<int>(blockIdx.x) / 2; }
  __device__ static int step() { return static_cast<int>(gridDim.x) / 2; }
  __device__ int row(int tile, unsigned rank) const {
    return (tile / across * 2 + static_cast<int>(rank)) * kTileRows;
  }
};

template <class Finish, bool kTurned>
__device__ inline void produce(const Maps& maps, const Shape& s, const Ring& ring) {
  const unsigned rank = rank_in_cluster();
  const Tiles tiles = Tiles::of<Finish>(s);
  Place<kStages> place;
  for (int t = Tiles::first(); t < tiles.total; t += Tiles::step()) {
    const int tile = t % tiles.across;
    const int row = tiles.row(t, rank);
    for (int b = 0; b < tiles.blocks; ++b, place.next()) {
      tile_copy::wait(ring.empty(place.stage), place.phase ^ 1U);
      const unsigned full = ring.full(place.stage);
      const unsigned to = ring.slot(place.stage);
      tile_copy::arrive_expecting(full, kSlotBytes);
      tile_copy::copy_box(to, &maps.a, b * kSide, row, 0, full);
      const unsigned half = to + (2 + 2 * rank) * kSquare;
      if constexpr (kTurned) {
        const int column = tile * kTileColumns + static_cast<int>(rank) * kTileColumns / 2;
        tile_copy::copy_box_to_both(half, &maps.b, column, b * kSide, 0, full);
        tile_copy::copy_box_to_both(half + kSquare, &maps.b, column + kSide, b * kSide, 0, full);
      } else {
        const int first = Finish::first_row(s, tile, static_cast<int>(rank));
        tile_copy::copy_box_to_both(half, &maps.b, b * kSide, first, 0, full);
      }
    }
    for (int r = 0; r < Finish::kRounds; ++r, place.next()) {
      tile_copy::wait(ring.empty(place.stage), place.phase ^ 1U);
      const unsigned full = ring.full(place.stage);
      if constexpr (Finish::kInputs == 0) {
        tile_copy::arrive(full);
      } else {
        tile_copy::arrive_expecting(full, 2 * Finish::kInputs * kSquare);
        for (int w = 0; w < 2; ++w) {
          const unsigned to = ring.slot(place.stage) + static_cast<unsigned>(w * kPartBytes);
          Finish::load(maps, to, tile * Finish::kColumns, row + w * kSide, r, full);
        }
      }
    }
  }
}

template <class Finish, bool kTurned>
__device__ inline void consume(const Maps& maps,
                               const Shape& s,
                               const typename Finish::Arg& arg,
                               const Ring& ring,
                               unsigned char* memory,
                               int warpgroup) {
  const unsigned rank = rank_in_cluster();
  const Tiles tiles = Tiles::of<Finish>(s);
  const bool leader = threadIdx.x % kWarpgroup == 0;
  Place<kStages> place;
  int storing = -1;  // the slot of the last round, until its stores have read it
  float d[kTileColumns / 2];
  for (int t = Tiles::first(); t < tiles.total; t += Tiles::step()) {
    Spot spot{.slot = 0,
              .own = memory + kOwnAt + warpgroup * kOwnBytes,
              .row = tiles.row(t, rank) + warpgroup * kSide,
              .column = t % tiles.across * Finish::kColumns};
    Finish::begin(spot.own, spot.column, s, arg);
    int before = -1;
    for (int b = 0; b < tiles.blocks; ++b, place.next()) {
      tile_copy::wait(ring.full(place.stage), place.phase);
      const unsigned left = ring.slot(place.stage) + static_cast<unsigned>(warpgroup) * kSquare;
      const unsigned right = ring.slot(place.stage) + 2 * kSquare;
      wgmma::begin();
#pragma unroll
      for (int k = 0; k < kSide / 16; ++k) {
        const std::uint64_t of_b =
            kTurned ? wgmma::turned_step(right, k) : wgmma::rows_step(right, k);
        wgmma::multiply<kTurned>(d, wgmma::rows_step(left, k), of_b, b | k);
      }
      wgmma::commit();
      if (storing >= 0 && leader) {
        tile_copy::wait_until_read<0>();
        ring.release_for_all(storing);
      }
      storing = -1;
      wgmma::wait<1>();
      if (before >= 0) ring.release(before);
      before = place.stage;
    }
    wgmma::wait<0>();
    wgmma::arrived(d);
    ring.release(before);
    meet(warpgroup);  // what the leader waited for and what begin() wrote is true for all
#pragma unroll
    for (int r = 0; r < Finish::kRounds; ++r, place.next()) {
      tile_copy::wait(ring.full(place.stage), place.phase);
      spot.slot = ring.slot(place.stage) + static_cast<unsigned>(warpgroup * kPartBytes);
      Finish::work(spot, r, d, arg);
      tile_copy::show_to_engine();
      meet(warpgroup);
      if (leader) {
        Finish::store(maps, spot, r, arg);
        tile_copy::close_stores();
        if (storing >= 0) {
          tile_copy::wait_until_read<1>();
          ring.release_for_all(storing);
        }
      }
      Finish::after(spot, r, s, arg);
      storing = place.stage;
    }
  }
  if (leader) tile_copy::wait_until_stored();
}

template <class Finish, bool kTurned>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(2, 1, 1)
    product_kernel(const __grid_constant__ Maps maps,
                   const Shape s,
                   const typename Finish::Arg arg) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char memory[];
  const Ring ring{tile_copy::shared_address(memory)};
  ring.make_barriers();
  const int warpgroup = wgmma::warpgroup_of_thread();
  if (warpgroup == 2) {
    wgmma::fewer_registers<kProducerRegisters>();
    if (threadIdx.x % kWarpgroup == 0) produce<Finish, kTurned>(maps, s, ring);
  } else {
    wgmma::more_registers<kConsumerRegisters>();
    consume<Finish, kTurned>(maps, s, arg, ring, memory, warpgroup);
  }
  meet_cluster();  // a block that is gone could not be sent to any more
#else
  __trap();  // built for another GPU than the one that was asked
#endif
}

/// Whether these numbers fit, and a map of each matrix is there.
class Plan {
 public:
  Plan(Index rows, Index columns, Index depth)
      : shape{static_cast<int>(rows), static_cast<int>(columns), static_cast<int>(depth)},
        good_(device::is_hopper() && rows > 0 && columns > 0 && depth > 0 && rows < kMost &&
              columns < kMost && depth < kMost) {}
  /// Where there is no matrix the map stays empty and must not be used.
  Plan& add(CUtensorMap& map, Rows<const Bf16> matrix, int box_rows = kSide) {
    if (!matrix) return *this;
    good_ = good_ && tile_copy::describe(matrix, matrix.rows, 1, map, box_rows);
    return *this;
  }
  bool good() const { return good_; }
  template <class Finish, bool kTurned>
  bool launch(const char* what, const typename Finish::Arg& arg) const {
    const Index blocks = device::multiprocessors() / 2 * 2;
    launch_tiles(what, blocks, kThreads, kBytes, product_kernel<Finish, kTurned>, maps, shape, arg);
    return true;
  }

  Shape shape;
  Maps maps{};

 private:
  static constexpr Index kMost = Index{1} << 30;  // they are counted in 32 bits
  bool good_;
};

}  // namespace norma::kernels::products
