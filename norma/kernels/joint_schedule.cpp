#include "norma/kernels/joint_schedule.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <queue>
#include <utility>

#include "norma/kernels/attention.h"

namespace norma::kernels {

namespace {

std::size_t index(int i) { return static_cast<std::size_t>(i); }

// How long things take on an H200, in eighths of a visit.
constexpr int kVisit = 8;
constexpr int kBetweenTiles = 2;
// Who comes to a block sooner after another may have to wait: that one has to add and to tell.
constexpr int kApart = kVisit;

/// Visits of a tile, one right behind the other: place p, of [begin, end), at the time at +
/// p·kVisit.
struct Stretch {
  int begin, end;
  int at;
};

/// Where a tile had best begin that starts now: where it comes least into the way of others to its
/// blocks, and of several such places close to the tile before, with which it shares the queries in
/// the cache.
int best_first(int start, int blocks, const std::vector<Stretch>& others, int before) {
  std::vector<long> crowd(index(blocks), 0);
  // If place 0 comes at `at` where the tile begins there, and kVisit earlier with each place that
  // it begins later, and it has this many places in common with the other stretch.
  const auto meet = [&](const Stretch& other, int at, auto common) {
    constexpr int kReach = kApart / kVisit;
    const int nearest = (at - other.at) / kVisit;
    const int end = std::min(nearest + kReach + 1, blocks);
    for (int first = std::max(nearest - kReach, 0); first < end; ++first) {
      const int gap = std::abs(at - first * kVisit - other.at);
      const int places = common(first);
      if (gap < kApart && places > 0) crowd[index(first)] += long{kApart - gap} * places;
    }
  };
  for (const Stretch& other : others) {
    meet(other, start, [&](int first) {
      return std::min(other.end, blocks) - std::max(other.begin, first);
    });
    meet(other, start + blocks * kVisit, [&](int first) {
      return std::min(other.end, first) - other.begin;
    });
  }
  const auto rank = [&](int first) {
    return std::pair{crowd[index(first)], std::abs(start - first * kVisit - before)};
  };
  int best = 0;
  for (int first = 1; first < blocks; ++first) {
    if (rank(first) < rank(best)) best = first;
  }
  return best;
}

struct Planned {
  JointTile tile;
  int worker;
  int start;
};

/// Each tile, in the order in which they are taken, with the worker that is free first.
std::vector<Planned> plan(const JointWalk& walk) {
  struct Head {
    std::vector<Stretch> at_work;
    int before = 0;  // when the last tile came, or would have come, to place 0
  };
  std::vector<Planned> planned;
  planned.reserve(index(walk.heads) * index(walk.tiles));
  std::vector<Head> heads(index(walk.heads));
  using Free = std::pair<int, int>;  // a time, a worker
  std::priority_queue<Free, std::vector<Free>, std::greater<>> free;
  for (int worker = 0; worker < walk.workers; ++worker) free.emplace(0, worker);
  int visits = 0;
  for (int set = 0; set < walk.heads; set += walk.set) {
    const int end = std::min(set + walk.set, walk.heads);
    for (int tile = 0; tile < walk.tiles; ++tile) {
      for (int h = set; h < end; ++h) {
        const int start = free.top().first;
        const int worker = free.top().second;
        free.pop();
        Head& head = heads[index(h)];
        std::erase_if(head.at_work,
                      [&](const Stretch& s) { return s.at + s.end * kVisit + kApart < start; });
        const int blocks = joint_blocks(walk, tile);
        const int first = best_first(start, blocks, head.at_work, head.before);
        head.before = start - first * kVisit;
        head.at_work.push_back({.begin = first, .end = blocks, .at = head.before});
        head.at_work.push_back({.begin = 0, .end = first, .at = head.before + blocks * kVisit});
        planned.push_back({.tile = {.head = h, .tile = tile, .first = first, .turns_at = visits},
                           .worker = worker,
                           .start = start});
        visits += blocks;
        free.emplace(start + blocks * kVisit + kBetweenTiles, worker);
      }
    }
  }
  return planned;
}

/// Of all visits of one head, by when they come.
void set_turns(const JointWalk& walk,
               const std::vector<const Planned*>& tiles,
               std::vector<std::uint16_t>& turns) {
  std::vector<std::pair<int, int>> comers;  // a time and, in order of tiles, where its turn lies
  for (int place = 0; place < walk.tiles; ++place) {
    comers.clear();
    for (const Planned* p : tiles) {
      const int blocks = joint_blocks(walk, p->tile.tile);
      if (place >= blocks) continue;
      const int visit = place - p->tile.first + (place < p->tile.first ? blocks : 0);
      comers.emplace_back(p->start + visit * kVisit, p->tile.turns_at + visit);
    }
    std::sort(comers.begin(), comers.end());
    std::uint16_t turn = 0;
    for (const auto& [time, at] : comers) turns[index(at)] = turn++;
  }
}

}  // namespace

JointWalk joint_walk(Index heads, Index tiles, bool causal, int multiprocessors) {
  constexpr Index kCache = Index{40} << 20;  // of an H200's 50 MB, which other rows pass through
  constexpr Index kBytes = 2 * sizeof(Bf16) + sizeof(float);  // a number of q, of dout and of dq
  constexpr Index kTilesHeld = kCache / (kJointTile * kJointWidth * kBytes);
  const Index most = std::clamp<Index>(kTilesHeld / tiles, 1, std::max(multiprocessors / 2, 1));
  const Index sets = (heads + most - 1) / most;
  return {.heads = static_cast<int>(heads),
          .tiles = static_cast<int>(tiles),
          .set = static_cast<int>((heads + sets - 1) / sets),
          .workers = static_cast<int>(std::min<Index>(heads * tiles, multiprocessors)),
          .causal = causal};
}

JointSchedule joint_schedule(const JointWalk& walk) {
  const std::vector<Planned> planned = plan(walk);
  JointSchedule schedule;
  schedule.begins.assign(index(walk.workers) + 1, 0);
  for (const Planned& p : planned) ++schedule.begins[index(p.worker) + 1];
  for (int w = 0; w < walk.workers; ++w) schedule.begins[index(w) + 1] += schedule.begins[index(w)];
  schedule.tiles.resize(planned.size());
  std::vector<int> next(schedule.begins.begin(), schedule.begins.end() - 1);
  std::vector<std::vector<const Planned*>> of_head(index(walk.heads));
  for (const Planned& p : planned) {
    schedule.tiles[index(next[index(p.worker)]++)] = p.tile;
    of_head[index(p.tile.head)].push_back(&p);
  }
  const JointTile& last = planned.back().tile;
  schedule.turns.resize(index(last.turns_at + joint_blocks(walk, last.tile)));
  for (const auto& tiles : of_head) set_turns(walk, tiles, schedule.turns);
  return schedule;
}

}  // namespace norma::kernels
