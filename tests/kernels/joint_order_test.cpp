// The order in which workers share the gradient of attention: everything is done once, in turns
// that do not depend on who is quicker, and nobody waits for ever.
#include "norma/kernels/joint_order.h"

#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace norma::kernels {

inline std::ostream& operator<<(std::ostream& out, const JointWalk& w) {
  return out << w.heads << " heads, " << w.tiles << " tiles, sets of " << w.set << ", " << w.workers
             << " workers" << (w.causal ? ", causal" : "");
}

namespace {

struct Visit {
  int head, block, turn;
};
std::size_t index_of(const JointWalk& walk, const Visit& v) {
  return static_cast<std::size_t>(v.head) * static_cast<std::size_t>(walk.tiles) +
         static_cast<std::size_t>(v.block);
}
/// What a worker does, in its order.
std::vector<Visit> way_of(const JointWalk& walk, int worker) {
  std::vector<Visit> way;
  for (JointTiles at(walk, worker); at.there(); at.next()) {
    const JointOrder order(at);
    for (int visit = 0; visit < order.blocks(); ++visit) {
      int turn = at.first_of_round();
      for (int other = turn; other < at.end_of_round(); ++other) {
        turn += adds_before(at, visit, other) ? 1 : 0;
      }
      way.push_back({at.head(), walk.tiles - 1 - order.place(visit), turn});
    }
  }
  return way;
}

class JointOrderTest : public testing::TestWithParam<JointWalk> {};

TEST_P(JointOrderTest, EveryTileIsTakenOnceAndVisitsWhatSeesItOnce) {
  const JointWalk& walk = GetParam();
  std::set<std::pair<int, int>> taken;
  for (int worker = 0; worker < walk.workers; ++worker) {
    for (JointTiles at(walk, worker); at.there(); at.next()) {
      ASSERT_TRUE(taken.emplace(at.head(), at.tile()).second) << "tile " << at.tile();
      ASSERT_LE(at.first_of_round(), at.tile());
      ASSERT_GT(at.end_of_round(), at.tile());
      const JointOrder order(at);
      std::set<int> blocks;
      for (int visit = 0; visit < order.blocks(); ++visit) {
        const int place = order.place(visit);
        ASSERT_EQ(order.visit(place), visit);
        blocks.insert(walk.tiles - 1 - place);
      }
      ASSERT_EQ(static_cast<int>(blocks.size()), order.blocks());
      ASSERT_EQ(*blocks.begin(), walk.causal ? at.tile() : 0);
      ASSERT_EQ(*blocks.rbegin(), walk.tiles - 1);
    }
  }
  EXPECT_EQ(static_cast<int>(taken.size()), walk.heads * walk.tiles);
}

// One worker as far as it gets, then the next: the most unequal speeds there are. Turns that two
// share or that nobody has, and circles of waits, leave something undone.
TEST_P(JointOrderTest, TurnsComeWhoeverIsQuick) {
  const JointWalk& walk = GetParam();
  std::vector<std::vector<Visit>> ways;
  ways.reserve(static_cast<std::size_t>(walk.workers));
  for (int worker = 0; worker < walk.workers; ++worker) ways.push_back(way_of(walk, worker));
  std::vector<std::size_t> done(ways.size(), 0);
  std::vector<int> turns(index_of(walk, {.head = walk.heads, .block = 0, .turn = 0}), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t worker = 0; worker < ways.size(); ++worker) {
      for (; done[worker] < ways[worker].size(); ++done[worker]) {
        const Visit& v = ways[worker][done[worker]];
        int& turn = turns[index_of(walk, v)];
        if (turn != v.turn) break;
        ++turn;
        moved = true;
      }
    }
  }
  for (std::size_t worker = 0; worker < ways.size(); ++worker) {
    EXPECT_EQ(done[worker], ways[worker].size()) << "worker " << worker << " waits for ever";
  }
  for (int head = 0; head < walk.heads; ++head) {
    for (int block = 0; block < walk.tiles; ++block) {
      const int seen = walk.causal ? block + 1 : walk.tiles;
      EXPECT_EQ(turns[index_of(walk, {.head = head, .block = block, .turn = 0})], seen);
    }
  }
}

// Tiles that begin at the same time: no two come to a block at the same visit, nor one right behind
// the other.
TEST(JointOrderOfARound, KeepsTilesApart) {
  const JointTiles at({.heads = 33, .tiles = 32, .set = 33, .workers = 132, .causal = true}, 0);
  ASSERT_EQ(at.end_of_round() - at.first_of_round(), 4);
  for (int place = 0; place < 32; ++place) {
    std::set<int> visits;
    int seen = 0;
    for (int tile = 0; tile < 4; ++tile) {
      const JointOrder order(at, tile);
      if (place >= order.blocks()) continue;
      ++seen;
      visits.insert(order.visit(place));
    }
    EXPECT_EQ(static_cast<int>(visits.size()), seen) << "place " << place;
    for (const int visit : visits) EXPECT_FALSE(visits.contains(visit + 1)) << "place " << place;
  }
}

std::vector<JointWalk> walks() {
  std::vector<JointWalk> all;
  for (const bool causal : {true, false}) {
    for (const auto& [heads, tiles] : {std::pair{1, 1},
                                       std::pair{1, 40},
                                       std::pair{3, 2},
                                       std::pair{32, 16},
                                       std::pair{99, 3},
                                       std::pair{100, 8},
                                       std::pair{7, 33}}) {
      for (const auto& [set, workers] :
           {std::pair{1, 1}, std::pair{1, 7}, std::pair{33, 132}, std::pair{66, 132}}) {
        all.push_back({.heads = heads,
                       .tiles = tiles,
                       .set = set < heads ? set : heads,
                       .workers = workers < heads * tiles ? workers : heads * tiles,
                       .causal = causal});
      }
    }
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Walks, JointOrderTest, testing::ValuesIn(walks()));

}  // namespace
}  // namespace norma::kernels
