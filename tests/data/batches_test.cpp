// Batches are a pure function of seed and step: every window once an epoch, another order each
// time.
#include "norma/data/batches.h"

#include <algorithm>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "norma/tensor/buffer.h"
#include "tests/support/expect.h"

namespace norma {
namespace {

using test::throws;

/// Tokens 0, 1, 2, … as 32-bit numbers.
struct Counting {
  explicit Counting(Index count) : ids(static_cast<std::size_t>(count)) {
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::uint32_t>(i);
  }
  TokenView view() const {
    return {reinterpret_cast<const std::byte*>(ids.data()), static_cast<Index>(ids.size()), 4};
  }
  std::vector<std::uint32_t> ids;
};

TEST(Permuted, IsAPermutationForEverySize) {
  for (const std::uint64_t size : {1ULL, 2ULL, 3ULL, 7ULL, 16ULL, 17ULL, 1000ULL}) {
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < size; ++i) seen.insert(permuted(i, size, 5, 9));
    EXPECT_EQ(seen.size(), size);
    EXPECT_EQ(*seen.rbegin(), size - 1);
  }
}

TEST(Permuted, DependsOnSeedAndKey) {
  int same_seed = 0;
  int same_key = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    same_seed += permuted(i, 1000, 1, 0) == permuted(i, 1000, 2, 0) ? 1 : 0;
    same_key += permuted(i, 1000, 1, 0) == permuted(i, 1000, 1, 1) ? 1 : 0;
  }
  EXPECT_LT(same_seed, 20);
  EXPECT_LT(same_key, 20);
}

TEST(TrainWindows, AnEpochHasEveryWindowOnce) {
  const Counting data(10 * 8 + 3);
  const TrainWindows windows(data.view(), 8, 3);
  EXPECT_EQ(windows.per_epoch(), 9);
  std::vector<Index> shifts;
  for (std::uint64_t epoch = 0; epoch < 6; ++epoch) {
    std::set<Index> starts;
    for (std::uint64_t i = 0; i < 9; ++i) starts.insert(windows.start_of(epoch * 9 + i).token);
    ASSERT_EQ(starts.size(), 9U);
    for (const Index start : starts) EXPECT_EQ((start - *starts.begin()) % 8, 0);
    EXPECT_LE(*starts.rbegin() + 8 + 1, 83);
    shifts.push_back(*starts.begin());
  }
  EXPECT_GT(std::set<Index>(shifts.begin(), shifts.end()).size(), 2U) << "epochs start elsewhere";
}

TEST(TrainWindows, TargetsFollowTheirTokens) {
  const Counting data(200);
  const TrainWindows windows(data.view(), 16, 1);
  const OwnedTensor ids({3, 16}, DType::i32);
  const OwnedTensor targets({48}, DType::i32);
  windows.fill(5, ids.tensor, targets.tensor);
  const auto id = ids.tensor.elements<std::int32_t>();
  const auto target = targets.tensor.elements<std::int32_t>();
  for (std::size_t i = 0; i < id.size(); ++i) EXPECT_EQ(target[i], id[i] + 1);
  EXPECT_EQ(id[0], windows.start_of(5).token);
}

TEST(TrainWindows, TooLittleDataIsRefused) {
  const Counting data(15);
  EXPECT_TRUE(throws<RequestError>([&] { TrainWindows(data.view(), 8, 1); },
                                   {"15 tokens", "at least 16", "model.context"}));
}

TEST(ValWindows, CoverTheSplitOnce) {
  const Counting data(50);
  const ValWindows windows(data.view(), 8, 0);
  EXPECT_EQ(windows.tokens(), 49);
  const OwnedTensor ids({4, 8}, DType::i32);
  const OwnedTensor targets({32}, DType::i32);
  std::multiset<std::int32_t> seen;
  for (Index first = 0; first < windows.count(); first += 4) {
    windows.fill(first, ids.tensor, targets.tensor);
    for (const std::int32_t target : targets.tensor.elements<std::int32_t>()) {
      if (target >= 0) seen.insert(target);
    }
  }
  ASSERT_EQ(seen.size(), 49U);
  EXPECT_EQ(*seen.begin(), 1);
  EXPECT_EQ(std::set<std::int32_t>(seen.begin(), seen.end()).size(), 49U);
}

TEST(ValWindows, ASampleIsSpreadOverTheSplit) {
  const Counting data(1001);
  const ValWindows windows(data.view(), 10, 40);
  EXPECT_EQ(windows.count(), 4);
  const OwnedTensor ids({4, 10}, DType::i32);
  const OwnedTensor targets({40}, DType::i32);
  windows.fill(0, ids.tensor, targets.tensor);
  EXPECT_EQ(value_at(ids.tensor, 0, 0), 0);
  EXPECT_EQ(value_at(ids.tensor, 3, 0), 750);
}

/// Every token is 10000 · its shard + its place, so that a window shows where it came from.
struct Shards {
  explicit Shards(const std::vector<Index>& counts) : ids(counts.size()) {
    std::vector<TokenShard> shards;
    for (std::size_t s = 0; s < counts.size(); ++s) {
      for (Index i = 0; i < counts[s]; ++i) {
        ids[s].push_back(static_cast<std::uint32_t>(10000 * static_cast<Index>(s) + i));
      }
      shards.push_back({reinterpret_cast<const std::byte*>(ids[s].data()), counts[s], 4});
    }
    view = TokenView(shards);
  }
  std::vector<std::vector<std::uint32_t>> ids;
  TokenView view;
};

TEST(TokenView, PartsRunThroughAllShards) {
  const Shards data({5, 0, 3, 7});
  EXPECT_EQ(data.view.count, 15);
  EXPECT_EQ(data.view.shards.size(), 3U);
  EXPECT_EQ(data.view[4], 4);
  EXPECT_EQ(data.view[5], 20000);
  EXPECT_EQ(data.view[14], 30006);
  const TokenView part = data.view.part(3, 6);
  EXPECT_EQ(part.count, 6);
  EXPECT_EQ(part[0], 3);
  EXPECT_EQ(part[2], 20000);
  EXPECT_EQ(part[5], 30000);
  EXPECT_EQ(data.view.part(15, 0).count, 0);
}

TEST(WindowTable, FindsEveryWindowOnce) {
  const std::vector<Index> counts = {3, 0, 1, 0, 0, 5};
  const WindowTable table(counts);
  ASSERT_EQ(table.total(), 9);
  std::vector<Index> seen(counts.size());
  for (Index window = 0; window < 9; ++window) {
    const WindowTable::Place place = table.find(window);
    EXPECT_EQ(place.window, seen[place.shard]++);
  }
  EXPECT_EQ(seen, counts);
}

TEST(TrainWindows, NoWindowOfAnyShardComesTwiceAnEpoch) {
  const std::vector<Index> counts = {
      100, 7, 16, 15, 333, 64, 1};  // the 2nd, 4th and last have none
  const Shards data(counts);
  const TrainWindows windows(data.view, 8, 11);
  Index expected = 0;
  for (const Index count : counts) expected += std::max<Index>(0, (count - 8) / 8);
  ASSERT_EQ(windows.per_epoch(), expected);
  const auto epoch_size = static_cast<std::uint64_t>(expected);
  const OwnedTensor ids({1, 8}, DType::i32);
  const OwnedTensor targets({8}, DType::i32);
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    std::set<std::int32_t> tokens;
    for (std::uint64_t i = 0; i < epoch_size; ++i) {
      windows.fill(epoch * epoch_size + i, ids.tensor, targets.tensor);
      const auto id = ids.tensor.elements<std::int32_t>();
      const auto target = targets.tensor.elements<std::int32_t>();
      for (std::size_t t = 0; t < 8; ++t) {
        EXPECT_TRUE(tokens.insert(id[t]).second) << "token " << id[t] << " came twice";
        EXPECT_EQ(target[t], id[t] + 1) << "a window crossed the end of a shard";
      }
      const auto shard = static_cast<std::size_t>(id[0] / 10000);
      EXPECT_LT(target[7] % 10000, counts[shard]);
    }
    EXPECT_EQ(tokens.size(), 8 * epoch_size);
  }
}

TEST(TrainWindows, AreAPureFunctionOfSeedAndSample) {
  const Shards data({500, 900, 40});
  const TrainWindows one(data.view, 16, 3);
  const TrainWindows again(data.view, 16, 3);
  const TrainWindows other(data.view, 16, 4);
  const OwnedTensor whole({12, 16}, DType::i32);
  const OwnedTensor whole_targets({192}, DType::i32);
  one.fill(7, whole.tensor, whole_targets.tensor);  // a batch
  const OwnedTensor part({4, 16}, DType::i32);
  const OwnedTensor part_targets({64}, DType::i32);
  bool differs = false;
  for (std::uint64_t first = 0; first < 12; first += 4) {  // the same in micro-batches, resumed
    again.fill(7 + first, part.tensor, part_targets.tensor);
    const auto want = whole.tensor.elements<std::int32_t>().subspan(first * 16, 64);
    const auto got = part.tensor.elements<std::int32_t>();
    EXPECT_TRUE(std::equal(got.begin(), got.end(), want.begin()));
    other.fill(7 + first, part.tensor, part_targets.tensor);
    differs = differs || !std::equal(got.begin(), got.end(), want.begin());
  }
  EXPECT_TRUE(differs);
}

TEST(TrainWindows, ShardsThatAreAllTooShortAreRefused) {
  const Shards data({15, 15, 9});
  EXPECT_TRUE(throws<RequestError>([&] { TrainWindows(data.view, 8, 1); },
                                   {"39 tokens in 3 shards", "at least 16 in a shard"}));
}

TEST(ValWindows, CoverEveryShardOnceAndCrossNone) {
  const Shards data({20, 1, 17, 9});
  const ValWindows windows(data.view, 8, 0);
  EXPECT_EQ(windows.tokens(), 19 + 0 + 16 + 8);
  const OwnedTensor ids({1, 8}, DType::i32);
  const OwnedTensor targets({8}, DType::i32);
  std::set<std::int32_t> seen;
  for (Index window = 0; window < windows.count(); ++window) {
    windows.fill(window, ids.tensor, targets.tensor);
    const auto id = ids.tensor.elements<std::int32_t>();
    const auto target = targets.tensor.elements<std::int32_t>();
    for (std::size_t t = 0; t < 8; ++t) {
      if (target[t] < 0) continue;
      EXPECT_TRUE(seen.insert(target[t]).second);
      EXPECT_EQ(target[t], id[t] + 1);
    }
  }
  EXPECT_EQ(static_cast<Index>(seen.size()), windows.tokens());
}

}  // namespace
}  // namespace norma
