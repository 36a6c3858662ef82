#include "norma/base/rng.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace norma {
namespace {

// Known answers of Philox 4x32-10: the counter is (position low, high, stream low, high), the key
// is (seed low, high).
TEST(Random, PhiloxKnownAnswerZeros) {
  constexpr RandomBlock kWant = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  static_assert(random_block({.seed = 0, .stream = 0}, 0) == kWant);
  EXPECT_EQ(random_block({.seed = 0, .stream = 0}, 0), kWant);
}

TEST(Random, PhiloxKnownAnswerOnes) {
  constexpr std::uint64_t kOnes = ~std::uint64_t{0};
  const RandomBlock want = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
  EXPECT_EQ(random_block({.seed = kOnes, .stream = kOnes}, kOnes), want);
}

TEST(Random, PhiloxKnownAnswerDigitsOfPi) {
  const RandomKey key{.seed = 0x299f31d0a4093822, .stream = 0x0370734413198a2e};
  const RandomBlock want = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
  EXPECT_EQ(random_block(key, 0x85a308d3243f6a88), want);
}

TEST(Random, WordsAreTheBlocksInOrder) {
  const RandomKey key{7, 11};
  for (std::uint64_t i = 0; i < 12; ++i) {
    EXPECT_EQ(random_word(key, i), random_block(key, i / 4)[i % 4]) << i;
  }
}

TEST(Random, UniformLiesInItsHalfOpenRange) {
  EXPECT_EQ(uniform_of(0), 0.0f);
  EXPECT_EQ(uniform_of(0xffffffff), 1.0f - 1.0f / 16777216.0f);
  EXPECT_LT(uniform_of(0xffffffff), 1.0f);
  EXPECT_EQ(uniform_of(0x80000000), 0.5f);
}

TEST(Random, UniformFillsItsRangeEvenly) {
  constexpr int kDraws = 1 << 20;
  constexpr int kBuckets = 64;
  std::vector<double> hits(kBuckets, 0);
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const auto u =
        static_cast<double>(uniform_of(random_word({3, 5}, static_cast<std::uint64_t>(i))));
    ++hits[static_cast<std::size_t>(u * kBuckets)];
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.0015);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 0.0015);
  double chi_square = 0;
  constexpr double kEach = static_cast<double>(kDraws) / kBuckets;
  for (const double h : hits) chi_square += (h - kEach) * (h - kEach) / kEach;
  EXPECT_LT(chi_square, 110);  // 63 degrees of freedom: mean 63, deviation 11
  EXPECT_GT(chi_square, 25);
}

/// 2^20 normals of a stream.
std::vector<double> draw(RandomKey key) {
  std::vector<double> values;
  for (std::uint64_t i = 0; i < (1U << 19); ++i) {
    for (const double x : normal_pair(key, i)) values.push_back(x);
  }
  return values;
}

double mean_product(const std::vector<double>& a, const std::vector<double>& b, std::size_t shift) {
  double sum = 0;
  for (std::size_t i = 0; i + shift < a.size(); ++i) sum += a[i] * b[i + shift];
  return sum / static_cast<double>(a.size() - shift);
}

TEST(Random, NormalsHaveTheMomentsAndTailsOfNormals) {
  const std::vector<double> x = draw({1, 2});
  const auto n = static_cast<double>(x.size());
  double moments[5] = {};
  double beyond_one = 0;
  double beyond_two = 0;
  double largest = 0;
  for (const double v : x) {
    for (int k = 1; k <= 4; ++k) moments[k] += std::pow(v, k) / n;
    beyond_one += (v > 1 ? 1 : 0) / n;
    beyond_two += (std::abs(v) > 2 ? 1 : 0) / n;
    largest = std::max(largest, std::abs(v));
  }
  EXPECT_NEAR(moments[1], 0, 0.004);
  EXPECT_NEAR(moments[2], 1, 0.006);
  EXPECT_NEAR(moments[3], 0, 0.01);
  EXPECT_NEAR(moments[4], 3, 0.02);
  EXPECT_NEAR(beyond_one, 0.158655, 0.0015);
  EXPECT_NEAR(beyond_two, 0.045500, 0.0008);
  EXPECT_LT(largest, 6.8);  // the farthest that 32 bits reach: sqrt(2 ln 2^33)
}

TEST(Random, NormalsOfNeighboursStreamsAndSeedsAreUncorrelated) {
  const std::vector<double> x = draw({1, 2});
  for (const std::size_t shift : {1, 2, 3, 4}) {
    EXPECT_NEAR(mean_product(x, x, shift), 0, 0.004) << "shift " << shift;
  }
  EXPECT_NEAR(mean_product(x, draw({1, 3}), 0), 0, 0.004);
  EXPECT_NEAR(mean_product(x, draw({2, 2}), 0), 0, 0.004);
  // The two of a pair share a radius in Box-Muller; their squares must not be correlated either.
  double squares = 0;
  for (std::size_t i = 0; i < x.size(); i += 2) squares += x[i] * x[i] * x[i + 1] * x[i + 1];
  EXPECT_NEAR(2 * squares / static_cast<double>(x.size()), 1, 0.015);
}

TEST(Random, NormalAtIsTheStreamElementByElement) {
  for (std::uint64_t i = 0; i < 9; ++i) {
    EXPECT_EQ(normal_at({4, 5}, i), normal_pair({4, 5}, i / 2)[i % 2]) << i;
  }
}

}  // namespace
}  // namespace norma
