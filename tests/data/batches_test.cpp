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
    for (std::uint64_t i = 0; i < 9; ++i) starts.insert(windows.start_of(epoch * 9 + i));
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
  EXPECT_EQ(id[0], windows.start_of(5));
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

}  // namespace
}  // namespace norma
