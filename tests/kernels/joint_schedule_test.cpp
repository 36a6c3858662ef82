// The schedule by which workers share the gradient of attention: everything is done once, in turns
// that do not depend on who is quicker, nobody waits for ever, and at equal speeds hardly at all.
#include "norma/kernels/joint_schedule.h"

#include <algorithm>
#include <cstddef>
#include <ostream>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "norma/kernels/attention.h"

namespace norma::kernels {

inline std::ostream& operator<<(std::ostream& out, const JointWalk& w) {
  return out << w.heads << " heads, " << w.tiles << " tiles, sets of " << w.set << ", " << w.workers
             << " workers" << (w.causal ? ", causal" : "");
}

namespace {

struct Visit {
  std::size_t block;  // of all heads
  int turn;
  bool last;  // of its tile
};
std::size_t index_of(const JointWalk& walk, int head, int block) {
  return static_cast<std::size_t>(head) * static_cast<std::size_t>(walk.tiles) +
         static_cast<std::size_t>(block);
}
template <class F>
void for_tiles(const JointSchedule& schedule, int worker, F&& f) {
  const auto w = static_cast<std::size_t>(worker);
  for (int i = schedule.begins[w]; i < schedule.begins[w + 1]; ++i) {
    f(schedule.tiles[static_cast<std::size_t>(i)]);
  }
}
/// What each worker does, in its order.
std::vector<std::vector<Visit>> ways_of(const JointWalk& walk) {
  const JointSchedule schedule = joint_schedule(walk);
  std::vector<std::vector<Visit>> ways(static_cast<std::size_t>(walk.workers));
  for (int worker = 0; worker < walk.workers; ++worker) {
    for_tiles(schedule, worker, [&](const JointTile& tile) {
      const int blocks = joint_blocks(walk, tile.tile);
      for (int visit = 0; visit < blocks; ++visit) {
        const int block = walk.tiles - 1 - joint_place(tile.first, blocks, visit);
        const int turn_at = tile.turns_at + visit;
        ways[static_cast<std::size_t>(worker)].push_back(
            {.block = index_of(walk, tile.head, block),
             .turn = schedule.turns[static_cast<std::size_t>(turn_at)],
             .last = visit + 1 == blocks});
      }
    });
  }
  return ways;
}
/// One worker as far as it gets, then the next: the most unequal speeds there are. f(worker, visit)
/// for each that its turn lets through; the number of turns that each block had.
template <class F>
std::vector<int> take_turns(const JointWalk& walk,
                            const std::vector<std::vector<Visit>>& ways,
                            F&& f) {
  std::vector<std::size_t> done(ways.size(), 0);
  std::vector<int> turns(index_of(walk, walk.heads, 0), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t worker = 0; worker < ways.size(); ++worker) {
      for (; done[worker] < ways[worker].size(); ++done[worker]) {
        const Visit& visit = ways[worker][done[worker]];
        if (turns[visit.block] != visit.turn) break;
        ++turns[visit.block];
        f(worker, visit);
        moved = true;
      }
    }
  }
  return turns;
}

class JointScheduleTest : public testing::TestWithParam<JointWalk> {};

TEST_P(JointScheduleTest, EveryTileIsTakenOnceAndVisitsWhatSeesItOnce) {
  const JointWalk& walk = GetParam();
  const JointSchedule schedule = joint_schedule(walk);
  std::set<std::pair<int, int>> taken;
  for (int worker = 0; worker < walk.workers; ++worker) {
    int set = 0;
    for_tiles(schedule, worker, [&](const JointTile& tile) {
      EXPECT_TRUE(taken.emplace(tile.head, tile.tile).second) << "tile " << tile.tile;
      EXPECT_GE(tile.head / walk.set, set) << "a set before is taken later";
      set = tile.head / walk.set;
      const int blocks = joint_blocks(walk, tile.tile);
      std::set<int> places;
      for (int visit = 0; visit < blocks; ++visit) {
        places.insert(joint_place(tile.first, blocks, visit));
      }
      EXPECT_EQ(static_cast<int>(places.size()), blocks);
      EXPECT_EQ(*places.begin(), 0);
      EXPECT_EQ(*places.rbegin(), blocks - 1);
    });
  }
  EXPECT_EQ(static_cast<int>(taken.size()), walk.heads * walk.tiles);
}

// Turns that two share or that nobody has, and circles of waits, leave something undone.
TEST_P(JointScheduleTest, TurnsComeWhoeverIsQuick) {
  const JointWalk& walk = GetParam();
  const std::vector<int> turns = take_turns(walk, ways_of(walk), [](std::size_t, const Visit&) {});
  for (int head = 0; head < walk.heads; ++head) {
    for (int block = 0; block < walk.tiles; ++block) {
      ASSERT_EQ(turns[index_of(walk, head, block)], walk.causal ? block + 1 : walk.tiles)
          << "head " << head << ", block " << block;
    }
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
           {std::pair{1, 1}, std::pair{1, 7}, std::pair{8, 132}, std::pair{66, 132}}) {
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
INSTANTIATE_TEST_SUITE_P(Walks, JointScheduleTest, testing::ValuesIn(walks()));

/// Heads and tiles on an H200, and how many heads are in a set.
struct Case {
  Index heads, tiles;
  bool causal;
  int set;
  JointWalk walk() const { return joint_walk(heads, tiles, causal, 132); }
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.walk(); }
class JointScheduleOnAnH200 : public testing::TestWithParam<Case> {};

constexpr double kBetweenTiles = 0.3;  // of a visit
double length_of(const std::vector<Visit>& way) {
  double length = 0;
  for (const Visit& visit : way) length += 1 + (visit.last ? kBetweenTiles : 0);
  return length;
}
/// How long all of it takes, in visits, where what a step adds is handed over within the next one,
/// and a step that finds the one before not yet read waits. As measured on an H200, or nearly so.
double duration(const JointWalk& walk, const std::vector<std::vector<Visit>>& ways) {
  constexpr double kHandOver = 1.4;  // after a step began
  constexpr double kRead = 0.35;     // after it was its turn
  constexpr double kTold = 0.6;
  struct Worker {
    double time = 0;  // when the next step begins
    double read = 0;
    double told = 0;
  };
  std::vector<Worker> workers(ways.size());
  std::vector<double> told(index_of(walk, walk.heads, 0), 0);
  take_turns(walk, ways, [&](std::size_t worker, const Visit& visit) {
    Worker& w = workers[worker];
    const double handed = std::max(w.time + kHandOver, w.read);
    const double turn = std::max({handed, w.told, told[visit.block]});
    w.time = std::max(w.time + 1, handed + 1 - kHandOver) + (visit.last ? kBetweenTiles : 0);
    w.read = turn + kRead;
    w.told = told[visit.block] = turn + kTold;
  });
  double end = 0;
  for (const Worker& w : workers) end = std::max(end, w.told);
  return end;
}

TEST_P(JointScheduleOnAnH200, HardlyWaits) {
  const JointWalk walk = GetParam().walk();
  EXPECT_EQ(walk.set, GetParam().set);
  const std::vector<std::vector<Visit>> ways = ways_of(walk);
  double longest = 0;
  double all = 0;
  for (const auto& way : ways) {
    longest = std::max(longest, length_of(way));
    all += length_of(way);
  }
  // 2048 tiles of one length take 16 rounds where 15.5 were even.
  EXPECT_LT(longest, 1.035 * all / walk.workers);
  EXPECT_LT(duration(walk, ways), 1.02 * longest);
}

INSTANTIATE_TEST_SUITE_P(Shapes,
                         JointScheduleOnAnH200,
                         testing::Values(Case{32, 64, true, 8},
                                         Case{64, 32, true, 16},
                                         Case{768, 8, true, 64},
                                         Case{256, 8, true, 64},
                                         Case{320, 8, true, 64},
                                         Case{16, 128, true, 4},
                                         Case{32, 64, false, 8}));

// Two bytes for each visit.
TEST(JointGradient, IsForSoManyTokensThatTheScheduleStaysSmall) {
  const auto fits = [](Index heads, Index tokens, bool causal) {
    AttentionShape shape{};
    shape.batch = 1;
    shape.queries = shape.keys = shape.key_rows = tokens;
    shape.heads = shape.kv_heads = heads;
    shape.head_width = kJointWidth;
    shape.causal = causal;
    return fits_joint_gradient(shape);
  };
  EXPECT_TRUE(fits(31, 131072, true));
  EXPECT_FALSE(fits(32, 131072, true));
  EXPECT_TRUE(fits(16, 131072, false));
  EXPECT_FALSE(fits(17, 131072, false));
}

}  // namespace
}  // namespace norma::kernels
