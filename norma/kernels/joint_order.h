// Who does what, and when, where workers that all run at the same time share the gradient of
// attention (cuda/attention_wgmma_joint.cuh). A worker takes one tile of keys after the other. With
// each tile it visits the blocks of queries that see it, and at each visit adds to the sums of that
// block's dq when it is its turn. The order of the turns is fixed, so the sums have the same bits
// each time.
//
// It is the order of (round, visit, tile), and along a worker's way the first two only grow. So a
// tile only ever waits for what is at work or done, and no circle of waits can close.
#pragma once

#include "norma/kernels/host_device.h"

namespace norma::kernels {

/// A head has as many blocks of queries as tiles of keys. Heads are taken in sets; in a set the
/// first tile of every head comes first, then the second: where there are heads enough, few tiles
/// of each are at work at a time, near enough to each other to find its queries in the cache.
struct JointWalk {
  int heads;
  int tiles;  // of a head
  int set;    // heads
  int workers;
  bool causal;
};

/// The tiles of one worker. Rounds of workers go to and fro, so that all have the same to do under
/// a causal mask.
class JointTiles {
 public:
  NORMA_BOTH JointTiles(const JointWalk& walk, int worker) : walk_(walk), worker_(worker) {
    settle();
  }
  NORMA_BOTH bool there() const { return index_ < walk_.heads * walk_.tiles; }
  NORMA_BOTH void next() {
    ++round_;
    settle();
  }
  NORMA_BOTH const JointWalk& walk() const { return walk_; }
  NORMA_BOTH int head() const {
    return index_ / of_set() * walk_.set + index_ % of_set() % heads_here();
  }
  NORMA_BOTH int tile() const { return index_ % of_set() / heads_here(); }
  NORMA_BOTH int round() const { return round_; }
  /// The tiles of this head in this round: the first, and the one after the last.
  NORMA_BOTH int first_of_round() const {
    const int before = (index_ - round_ * walk_.workers) / heads_here();
    return tile() < before ? 0 : tile() - before;
  }
  NORMA_BOTH int end_of_round() const {
    const int after = ((round_ + 1) * walk_.workers - 1 - index_) / heads_here();
    return walk_.tiles - tile() <= after ? walk_.tiles : tile() + 1 + after;
  }

 private:
  NORMA_BOTH int of_set() const { return walk_.set * walk_.tiles; }
  NORMA_BOTH int heads_here() const {
    const int left = walk_.heads - index_ / of_set() * walk_.set;
    return left < walk_.set ? left : walk_.set;
  }
  NORMA_BOTH void settle() {
    index_ = round_ * walk_.workers + (round_ % 2 == 0 ? worker_ : walk_.workers - 1 - worker_);
  }
  JointWalk walk_;
  int worker_;
  int round_ = 0;
  int index_ = 0;
};

/// The order in which a tile visits blocks: from the last block to the first, at places 0, 1, ...,
/// but beginning `shift` places before the end, from which it goes on at place 0. Tiles of a head
/// that begin at the same time have different shifts, so that they come to a block one after the
/// other, with a step between them in which the one before can add and tell; where there are more
/// of them than blocks, some come together and wait for their turns.
class JointOrder {
 public:
  /// `tile` is one of those that this round has of the head of `at`. In every second round under a
  /// causal mask the ones with less to do begin later by a step each, which is one of the two.
  NORMA_BOTH JointOrder(const JointTiles& at, int tile)
      : blocks_(at.walk().tiles - (at.walk().causal ? tile : 0)),
        shift_((tile - at.first_of_round()) *
               (at.walk().causal && at.round() % 2 != 0 ? kApart - 1 : kApart) % blocks_) {}
  NORMA_BOTH explicit JointOrder(const JointTiles& at) : JointOrder(at, at.tile()) {}
  /// One whose numbers are known.
  NORMA_BOTH JointOrder(int blocks, int shift) : blocks_(blocks), shift_(shift) {}
  NORMA_BOTH int blocks() const { return blocks_; }
  NORMA_BOTH int shift() const { return shift_; }
  NORMA_BOTH int place(int visit) const { return visit - shift_ + (visit < shift_ ? blocks_ : 0); }
  NORMA_BOTH int visit(int place) const {
    const int visit = place + shift_;
    return visit < blocks_ ? visit : visit - blocks_;
  }

 private:
  static constexpr int kApart = 2;  // steps; of more the queries would leave the cache
  int blocks_;
  int shift_;
};

/// Whether another tile of the same head and round adds before this one at its n-th visit. A turn
/// is the number of these and of all tiles of rounds before.
NORMA_BOTH inline bool adds_before(const JointTiles& at, int visit, int other) {
  const JointOrder order(at, other);
  const int place = JointOrder(at).place(visit);
  if (place >= order.blocks()) return false;
  const int theirs = order.visit(place);
  return theirs < visit || (theirs == visit && other < at.tile());
}

}  // namespace norma::kernels
