#include "norma/tensor/arena.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "tests/support/expect.h"

namespace norma {
namespace {

/// A step's worth of calls: blocks of many sizes, every third given back at once.
std::vector<void*> one_round(Arena& arena) {
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < 200; ++i) {
    const std::size_t bytes = 1 + i * 997 % 20011;
    blocks.push_back(arena.allocate(bytes));
    if (i % 3 == 2) arena.release(blocks.back(), bytes);
  }
  return blocks;
}

TEST(Arena, BlocksAreAlignedAndApart) {
  Arena arena;
  std::vector<unsigned char*> blocks;
  for (std::size_t i = 0; i < 50; ++i) {
    blocks.push_back(static_cast<unsigned char*>(arena.allocate(100)));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks[i]) % kAlignment, 0U);
    std::memset(blocks[i], static_cast<int>(i), 100);
  }
  for (std::size_t i = 0; i < 50; ++i) {
    for (int k = 0; k < 100; ++k) ASSERT_EQ(blocks[i][k], i);
  }
}

TEST(Arena, TheSameSequenceGivesTheSameAddressesAndNothingGrows) {
  Arena arena;
  const std::vector<void*> first = one_round(arena);
  const std::size_t capacity = arena.capacity();
  const std::size_t peak = arena.peak();
  for (int round = 0; round < 3; ++round) {
    arena.reset();
    EXPECT_EQ(one_round(arena), first);
    EXPECT_EQ(arena.capacity(), capacity);
    EXPECT_EQ(arena.peak(), peak);
  }
}

TEST(Arena, AReleasedBlockServesTheNextOfItsSize) {
  Arena arena;
  void* a = arena.allocate(1000);
  void* b = arena.allocate(1000);
  arena.release(a, 1000);
  EXPECT_NE(arena.allocate(5000), a);  // another size takes fresh bytes
  EXPECT_EQ(arena.allocate(1000), a);
  EXPECT_NE(arena.allocate(1000), b);
}

TEST(Arena, ManyStepsInOneBlockNeedOneBlock) {
  Arena arena;
  arena.release(arena.allocate(100000), 100000);
  const std::size_t capacity = arena.capacity();
  for (int i = 0; i < 1000; ++i) arena.release(arena.allocate(100000), 100000);
  EXPECT_EQ(arena.capacity(), capacity);
}

TEST(Arena, CountsWhatIsInUseAndTheMostThatWas) {
  Arena arena;
  EXPECT_EQ(arena.in_use(), 0U);
  void* a = arena.allocate(10000);
  const std::size_t one = arena.in_use();
  EXPECT_GE(one, 10000U);
  EXPECT_LE(one, 10000U + 2 * kAlignment);
  void* b = arena.allocate(10000);
  EXPECT_EQ(arena.in_use(), 2 * one);
  arena.release(a, 10000);
  EXPECT_EQ(arena.in_use(), one);
  EXPECT_EQ(arena.peak(), 2 * one);
  arena.reset_peak();
  EXPECT_EQ(arena.peak(), one);
  arena.release(b, 10000);
  EXPECT_EQ(arena.in_use(), 0U);
  EXPECT_EQ(arena.peak(), one);
}

TEST(Arena, ResetFreesAllAndKeepsTheMemory) {
  Arena arena;
  void* first = arena.allocate(300);
  arena.allocate(1 << 20);
  const std::size_t capacity = arena.capacity();
  EXPECT_GE(capacity, std::size_t{1} << 20);
  arena.reset();
  EXPECT_EQ(arena.in_use(), 0U);
  EXPECT_EQ(arena.capacity(), capacity);
  EXPECT_EQ(arena.allocate(300), first);
}

TEST(Arena, BlocksOfNoBytesAreApartToo) {
  Arena arena;
  EXPECT_NE(arena.allocate(0), arena.allocate(0));
}

TEST(Arena, SurvivesARequestThatCannotBeMet) {
  Arena arena;
  arena.allocate(100);
  const std::size_t in_use = arena.in_use();
  EXPECT_TRUE(
      test::throws<MemoryError>([&] { arena.allocate(4 * machine_memory()); }, {"wanted", "GiB"}));
  EXPECT_EQ(arena.in_use(), in_use);
  const std::size_t capacity = arena.capacity();
  void* block = arena.allocate(200);
  std::memset(block, 1, 200);
  EXPECT_EQ(arena.capacity(), capacity) << "the first chunk still has room";
}

}  // namespace
}  // namespace norma
