// The machine that the kernels' tests trust: it finds what a GPU would only do now and then.
#include "tests/hopper/machine.h"

#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/expect.h"

namespace norma::hopper {
namespace {

constexpr unsigned kBarrier = kSharedBase;

void wait_for(unsigned barrier, unsigned phase) {
  while (!is_over(barrier, phase)) {
  }
}

TEST(HopperMachine, ABarrierCountsArrivalsAndBytes) {
  for (const When when : {When::at_once, When::late}) {
    int copied = 0;
    std::vector<int> seen(64, -1);
    run({.threads = 64, .when = when}, [&] {
      if (thread() == 0) make_barrier(kBarrier, 2);
      meet_block();
      if (thread() == 32) arrive(kBarrier);
      if (thread() == 0) {
        arrive(kBarrier, 16);
        copy([&] { ++copied; }, kBarrier, 8);
        copy([&] { ++copied; }, kBarrier, 8);
      }
      wait_for(kBarrier, 0);
      seen[static_cast<std::size_t>(thread())] = copied;
    });
    EXPECT_EQ(seen, std::vector<int>(64, 2));
  }
}

TEST(HopperMachine, WaitingForEverIsFound) {
  EXPECT_TRUE(test::throws<std::runtime_error>(
      [] {
        run({.threads = 32}, [] {
          if (thread() == 0) make_barrier(kBarrier, 1);
          meet_block();
          wait_for(kBarrier, 0);
        });
      },
      {"for ever"}));
  EXPECT_TRUE(test::throws<std::runtime_error>(
      [] { run({.threads = 64}, [] { thread() < 32 ? meet_block() : void(); }); }, {"for ever"}));
}

TEST(HopperMachine, TooManyArrivalsAreFound) {
  EXPECT_TRUE(test::throws<std::runtime_error>(
      [] {
        run({.threads = 32, .when = When::late}, [] {
          if (thread() != 0) return;
          make_barrier(kBarrier, 1);
          arrive(kBarrier, 8);  // its bytes never come, so the phase goes on
          arrive(kBarrier);
        });
      },
      {"more threads arrive"}));
}

TEST(HopperMachine, LateWorkReadsItsOperandsLate) {
  const auto result = [](When when) {
    std::vector<int> product(32);
    std::vector<int> copied(32);
    std::vector<int> stored(32);
    run({.threads = 32, .when = when}, [&] {
      const auto i = static_cast<std::size_t>(thread());
      int operand = 1;
      norma::hopper::product([&] { product[i] = operand; });
      close_products();
      own_copy([&] { copied[i] = operand; });
      close_own_copies();
      store([&] { return [&to = stored[i], operand] { to = operand; }; });
      operand = 2;
      wait_for_products(0);
      wait_for_own_copies(0);
      read_stores();
      operand = 3;
    });
    EXPECT_EQ(product, stored);
    EXPECT_EQ(product, copied);
    return product.front();
  };
  EXPECT_EQ(result(When::at_once), 1);
  EXPECT_EQ(result(When::late), 2);
}

TEST(HopperMachine, WhatIsNeverWaitedForIsFound) {
  EXPECT_TRUE(test::throws<std::runtime_error>(
      [] { run({.threads = 32, .when = When::late}, [] { product([] {}); }); }, {"products"}));
  EXPECT_TRUE(test::throws<std::runtime_error>(
      [] { run({.threads = 32, .when = When::late}, [] { own_copy([] {}); }); }, {"copies"}));
  EXPECT_TRUE(test::throws<std::runtime_error>(
      [] { run({.threads = 32, .when = When::late}, [] { store([] { return [] {}; }); }); },
      {"stores"}));
}

TEST(HopperMachine, AStoreThatWasReadHasNotArrived) {
  for (const When when : {When::at_once, When::late}) {
    int memory = 0;
    run({.threads = 32, .when = when}, [&] {
      if (thread() != 0) return;
      const auto put = [&](int value) {
        store([&memory, value] { return [&memory, value] { memory = value; }; });
      };
      put(1);
      read_stores();
      EXPECT_EQ(memory, when == When::late ? 0 : 1);
      finish_stores();
      EXPECT_EQ(memory, 1);
      put(2);
      read_stores();
    });
    EXPECT_EQ(memory, 2);
  }
}

TEST(HopperMachine, LanesSeeEachOthersWords) {
  run({.threads = 64}, [] {
    for (unsigned round = 0; round < 3; ++round) {
      const auto mine = static_cast<unsigned>(thread());
      const OfLanes& all = exchange({{mine, round, 0, 0}});
      const unsigned neighbour = (mine + 1) % 32;
      EXPECT_EQ(all[neighbour].at[0], mine / 32 * 32 + neighbour);
      EXPECT_EQ(all[neighbour].at[1], round);
    }
  });
}

}  // namespace
}  // namespace norma::hopper
