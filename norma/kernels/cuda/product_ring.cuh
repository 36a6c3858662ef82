// What our products on Hopper share. Blocks stay on their multiprocessors and walk over tiles, two
// of them as a cluster with the same columns and neighbouring rows, of which each brings half of
// the right factor to both. Two warpgroups multiply; one thread of another sends for what they
// need, which comes through a ring of slots.
#pragma once

#include "norma/device/device.h"
#include "norma/kernels/cuda/tile_copy.cuh"
#include "norma/kernels/cuda/tile_maps.cuh"
#include "norma/kernels/cuda/wgmma.cuh"

namespace norma::kernels::products {

using tile_copy::meet_cluster;
using tile_copy::Place;
using tile_copy::rank_in_cluster;
using wgmma::kSide;
using wgmma::kSquareBytes;
using wgmma::kWarpgroup;
using wgmma::meet;

inline constexpr unsigned kSquare = kSquareBytes;  // as a step between addresses
inline constexpr int kThreads = 3 * kWarpgroup;
// A block's part of a tile; a cluster has twice the rows.
inline constexpr int kTileRows = 2 * kSide;
inline constexpr int kTileColumns = 4 * kSide;
// Where one warpgroup does nothing but send, as in attention_wgmma.cuh: together not more than the
// block began with.
inline constexpr int kProducerRegisters = 40;
inline constexpr int kConsumerRegisters = 232;

struct Maps {
  CUtensorMap a;
  CUtensorMap b;
  CUtensorMap in[2];
  CUtensorMap out[3];
};
struct Shape {
  int rows;
  int columns;  // of one of the results
  int depth;
};

__device__ inline int cluster_of_block() { return static_cast<int>(blockIdx.x) / 2; }
__device__ inline int clusters_of_grid() { return static_cast<int>(gridDim.x) / 2; }

/// Slots from `base` on and their barriers.
template <int kSlots, int kSlotBytes>
struct Ring {
  static constexpr int kStages = kSlots;
  static constexpr int kBytes = kSlots * kSlotBytes;
  static constexpr int kBarriers = 2 * kSlots;
  // Arrivals that free a slot: the warps of two warpgroups of both blocks.
  static constexpr int kReaders = 4 * kWarpgroup / 32;
  unsigned base;
  unsigned barriers;

  __device__ unsigned slot(int i) const { return base + static_cast<unsigned>(i * kSlotBytes); }
  /// Where the factors of a warpgroup begin in a slot of six parts, two of A and four of B.
  __device__ unsigned left(int i, int warpgroup) const {
    return slot(i) + static_cast<unsigned>(warpgroup * kSlotBytes / 6);
  }
  __device__ unsigned right(int i) const { return slot(i) + kSlotBytes / 3; }
  __device__ unsigned full(int i) const { return barriers + static_cast<unsigned>(8 * i); }
  __device__ unsigned empty(int i) const { return full(kSlots + i); }
  /// By one thread, before it publishes them.
  __device__ void make_barriers() const {
    for (int i = 0; i < kSlots; ++i) {
      tile_copy::make_barrier(full(i), 1);
      tile_copy::make_barrier(empty(i), kReaders);
    }
  }
  /// By the whole block, where it has no other barriers.
  __device__ void start() const {
    if (threadIdx.x == 0) {
      make_barriers();
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

/// Two squares of A and four of B, for 64 of the depth.
inline constexpr int kSixSquares = 6 * kSquareBytes;
using SquareSlots = Ring<4, kSixSquares>;

/// What a warpgroup multiplies for a tile, block by block: `queue(left, right, block)` queues the
/// products of one, and beside() is done while they are at work. The last ones may still be;
/// returns the stage that is to be released after them.
template <class Slots>
__device__ inline int multiply_blocks(const Slots& ring,
                                      Place<Slots::kStages>& place,
                                      int warpgroup,
                                      int blocks,
                                      const auto& queue,
                                      const auto& beside) {
  int before = -1;
  for (int b = 0; b < blocks; ++b, place.next()) {
    tile_copy::wait(ring.full(place.stage), place.phase);
    wgmma::begin();
    queue(ring.left(place.stage, warpgroup), ring.right(place.stage), b);
    wgmma::commit();
    beside();
    wgmma::wait<1>();
    if (before >= 0) ring.release(before);
    before = place.stage;
  }
  return before;
}

/// The tiles of a cluster, one after the other; columns first, so that the rows of A stay near.
template <int kColumns, int kDeep>
struct Tiles {
  int across;
  int total;
  int blocks;  // of kDeep
  __device__ static Tiles of(const Shape& s) {
    const int across = (s.columns + kColumns - 1) / kColumns;
    const int down = (s.rows + 2 * kTileRows - 1) / (2 * kTileRows);
    return {across, across * down, (s.depth + kDeep - 1) / kDeep};
  }
  __device__ int row(int tile) const {
    return (tile / across * 2 + static_cast<int>(rank_in_cluster())) * kTileRows;
  }
  __device__ int column(int tile) const { return tile % across * kColumns; }
};

/// Whether these numbers fit, and a map of each matrix is there.
class Plan {
 public:
  Plan(Index rows, Index columns, Index depth)
      : shape{static_cast<int>(rows), static_cast<int>(columns), static_cast<int>(depth)},
        good_(device::runs_hopper_kernels() && rows > 0 && columns > 0 && depth > 0 &&
              rows < kMost && columns < kMost && depth < kMost) {}
  /// Where there is no matrix the map stays empty and must not be used.
  Plan& add(CUtensorMap& map, Rows<const Bf16> matrix, const tile_copy::Box& box = {}) {
    if (!matrix) return *this;
    good_ = good_ && tile_copy::describe(matrix, map, box);
    return *this;
  }
  bool good() const { return good_; }

  Shape shape;
  Maps maps{};

 private:
  static constexpr Index kMost = Index{1} << 30;  // they are counted in 32 bits
  bool good_;
};

}  // namespace norma::kernels::products
