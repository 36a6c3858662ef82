#include "norma/kernels/fastest.h"

#include <vector>

#include <gtest/gtest.h>

namespace norma::kernels {
namespace {

/// A card that takes `costs[i]` for the i-th way, and longer the more it has done. Where the cost
/// is 0 there is no such way; from its `ends[i]`-th call on it fails at once.
struct Card {
  std::vector<double> costs;
  std::vector<int> ends = std::vector<int>(costs.size(), 1000);
  double slower_each_time = 0;

  bool queue(std::size_t i) {
    if (costs[i] == 0 || ++calls[i] >= ends[i]) return false;
    now += costs[i] * (1 + slower_each_time * runs++);
    return true;
  }
  void start() { began = now; }
  double seconds() const { return now - began; }

  std::vector<int> calls = std::vector<int>(costs.size(), 0);
  double now = 0;
  double began = 0;
  int runs = 0;
};

std::size_t fastest_of(Card card) {
  return fastest(
      card.costs.size(), [&](std::size_t i) { return card.queue(i); }, card);
}

TEST(Fastest, IsFoundWhereverItStands) {
  EXPECT_EQ(fastest_of({.costs = {1, 2, 3}}), 0U);
  EXPECT_EQ(fastest_of({.costs = {3, 1, 2}}), 1U);
  EXPECT_EQ(fastest_of({.costs = {3, 2, 1}}), 2U);
}

TEST(Fastest, WhatCannotIsNotChosen) {
  EXPECT_EQ(fastest_of({.costs = {0, 2, 1}}), 2U);
  EXPECT_EQ(fastest_of({.costs = {1, 2, 0}}), 0U);
  EXPECT_EQ(fastest_of({.costs = {0, 0}}), 0U);
  EXPECT_EQ(fastest_of({.costs = {}}), 0U);
}

// It takes no time from then on.
TEST(Fastest, WhatFailsAfterItsFirstTimeIsNotChosen) {
  EXPECT_EQ(fastest_of({.costs = {1, 2}, .ends = {2, 1000}}), 1U);
}

// Timed one after the other, each as often as here, the second would seem 15 % slower than it is.
TEST(Fastest, ACardThatSlowsDownDoesNotFavourTheFirst) {
  EXPECT_EQ(fastest_of({.costs = {1, 0.95}, .slower_each_time = 0.02}), 1U);
}

}  // namespace
}  // namespace norma::kernels
