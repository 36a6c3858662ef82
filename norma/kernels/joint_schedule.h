// Who does what, and when, where workers that all run at the same time share the gradient of
// attention (cuda/attention_wgmma_joint.cuh). A worker takes one tile of keys after the other. With
// each tile it visits the blocks of queries that see it, and at each visit adds to the sums of that
// block's dq when it is its turn. The turns are fixed, so the sums have the same bits each time.
//
// Turns are in the order in which workers would come to a block if every visit took as long as
// every other and nobody waited, and at the same time in the order of tiles. This one order of all
// visits also holds along every worker's way, so the first that is not done never waits, and no
// circle of waits can close.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "norma/base/types.h"
#include "norma/kernels/host_device.h"

namespace norma::kernels {

/// A head has as many blocks of queries as tiles of keys. Heads are taken in sets; in a set the
/// first tile of every head comes first, then the second: the queries, dout and sums of a set's
/// heads are those that the cache has to hold.
struct JointWalk {
  int heads;
  int tiles;  // of a head
  int set;    // heads
  int workers;
  bool causal;
  auto operator<=>(const JointWalk&) const = default;
};
/// For a GPU of so many multiprocessors, each a worker: as many heads in a set as have their
/// queries, dout and sums in the cache, but not so many that of each only one tile is at work. Sets
/// are as near one size as they go: a last one with few heads would wait for itself.
JointWalk joint_walk(Index heads, Index tiles, bool causal, int multiprocessors);
/// Of one head's tiles: the blocks that see it.
NORMA_BOTH inline int joint_blocks(const JointWalk& walk, int tile) {
  return walk.tiles - (walk.causal ? tile : 0);
}

/// A tile as its worker takes it.
struct alignas(16) JointTile {
  int head;
  int tile;
  int first;     // the place where it begins
  int turns_at;  // of its visits, one after the other
};
/// The order in which a tile visits blocks: from the last block to the first, at places 0, 1, ...,
/// but beginning at `first`, and going on at place 0 behind the last.
NORMA_BOTH inline int joint_place(int first, int blocks, int visit) {
  const int place = first + visit;
  return place < blocks ? place : place - blocks;
}

/// The tiles of one worker after those of the other; worker w has those of [begins[w], begins[w +
/// 1]). A turn is the number of tiles that add to the same block before.
struct JointSchedule {
  std::vector<JointTile> tiles;
  std::vector<int> begins;
  std::vector<std::uint16_t> turns;
};
JointSchedule joint_schedule(const JointWalk& walk);

}  // namespace norma::kernels
