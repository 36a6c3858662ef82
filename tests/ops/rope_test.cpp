#include "norma/ops/rope.h"

#include <cmath>

#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/base/error.h"
#include "tests/support/expect.h"
#include "tests/support/heap_count.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::dot;
using test::normals;
using test::numbers;
using test::throws;

constexpr Index kHead = 8;

OwnedTensor turned(const Tensor& x, const RopeTable& table, Index offset = 0) {
  Tape tape;
  return test::copy_of(rope(tape.constant(x), table, offset).value());
}

/// ⟨R_p q, R_s k⟩ for one head.
double score(const RopeTable& table, const Tensor& q, const Tensor& k, Index p, Index s) {
  return dot(turned(q, table, p).tensor, turned(k, table, s).tensor);
}

TEST(Rope, KnownValues) {
  // D = 4: ω = 1 and 1/100. At position 2 the pairs turn by 2 and 0.02.
  const OwnedTensor x = numbers({1, 1, 4}, DType::f64, {1, 2, 3, 4});
  const RopeTable table({.head = 4}, 3, DType::f64);
  const OwnedTensor y = turned(x.tensor, table, 2);
  EXPECT_NEAR(value_at(y.tensor, 0, 0), 1 * std::cos(2.0) - 2 * std::sin(2.0), 1e-15);
  EXPECT_NEAR(value_at(y.tensor, 0, 1), 1 * std::sin(2.0) + 2 * std::cos(2.0), 1e-15);
  EXPECT_NEAR(value_at(y.tensor, 0, 2), 3 * std::cos(0.02) - 4 * std::sin(0.02), 1e-15);
  EXPECT_NEAR(value_at(y.tensor, 0, 3), 3 * std::sin(0.02) + 4 * std::cos(0.02), 1e-15);
}

TEST(Rope, HalfSplitIsAPermutationOfInterleaved) {
  const OwnedTensor x = normals({2, 5, kHead}, DType::f64, 1);
  OwnedTensor moved({2, 5, kHead}, DType::f64);
  const auto from = [](Index c) { return c < kHead / 2 ? 2 * c : 2 * (c - kHead / 2) + 1; };
  test::for_each_place(x.tensor.shape, [&](Index r, Index c) {
    set_value(moved.tensor, r, c, value_at(x.tensor, r, from(c)));
  });
  const RopeTable pairs({.head = kHead}, 5, DType::f64);
  const RopeTable halves({.head = kHead, .layout = RopeLayout::half_split}, 5, DType::f64);
  const OwnedTensor y = turned(x.tensor, pairs);
  const OwnedTensor z = turned(moved.tensor, halves);
  test::for_each_place(x.tensor.shape, [&](Index r, Index c) {
    EXPECT_EQ(value_at(z.tensor, r, c), value_at(y.tensor, r, from(c)));
  });
}

TEST(Rope, KeepsLengthsAndDependsOnDistanceOnly) {
  for (const RopeLayout layout : {RopeLayout::interleaved, RopeLayout::half_split}) {
    const RopeTable table({.head = kHead, .layout = layout}, 64, DType::f64);
    const OwnedTensor q = normals({1, 1, kHead}, DType::f64, 1);
    const OwnedTensor k = normals({1, 1, kHead}, DType::f64, 2);
    EXPECT_NEAR(score(table, q.tensor, q.tensor, 37, 37), dot(q.tensor, q.tensor), 1e-13);
    for (const Index shift : {1, 10, 40}) {
      EXPECT_NEAR(score(table, q.tensor, k.tensor, 3 + shift, 9 + shift),
                  score(table, q.tensor, k.tensor, 3, 9),
                  1e-13);
    }
    EXPECT_GT(
        std::abs(score(table, q.tensor, k.tensor, 3, 10) - score(table, q.tensor, k.tensor, 3, 9)),
        1e-3);
  }
}

TEST(Rope, TheDefectiveVariantBreaksBothAndZeroesPairsAtTheStart) {
  const RopeTable table({.head = kHead, .layout = RopeLayout::nvidia_defect}, 64, DType::f64);
  const OwnedTensor q = normals({1, 1, kHead}, DType::f64, 1);
  const OwnedTensor k = normals({1, 1, kHead}, DType::f64, 2);
  EXPECT_LT(score(table, q.tensor, q.tensor, 7, 7), 0.9 * dot(q.tensor, q.tensor));
  EXPECT_GT(
      std::abs(score(table, q.tensor, k.tensor, 13, 19) - score(table, q.tensor, k.tensor, 3, 9)),
      1e-2);
  // Position 0: the mixed table is 0, 1, 0, 1, ..., so pairs 0 and 2 vanish and 1 and 3 swap.
  const OwnedTensor y = turned(q.tensor, table);
  for (const Index j : {0, 2}) {
    EXPECT_EQ(value_at(y.tensor, 0, 2 * j), 0);
    EXPECT_EQ(value_at(y.tensor, 0, 2 * j + 1), 0);
  }
  for (const Index j : {1, 3}) {
    EXPECT_EQ(value_at(y.tensor, 0, 2 * j), -value_at(q.tensor, 0, 2 * j + 1));
    EXPECT_EQ(value_at(y.tensor, 0, 2 * j + 1), value_at(q.tensor, 0, 2 * j));
  }
  // Position 5, pair 1: entries 1 and D/2 + 1 = 5 of sin ω0, cos ω0, sin ω1, cos ω1, sin ω2, ...
  const OwnedTensor later = turned(q.tensor, table, 5);
  const double w2 = std::pow(10000.0, -4.0 / kHead);
  EXPECT_NEAR(value_at(later.tensor, 0, 2), -value_at(q.tensor, 0, 3) * std::cos(5 * w2), 1e-15);
  EXPECT_NEAR(value_at(later.tensor, 0, 3), value_at(q.tensor, 0, 2) * std::cos(5.0), 1e-15);
}

TEST(Rope, DecodingOneRowAtAnOffsetGivesTheSameBits) {
  const RopeTable table({.head = kHead}, 16, DType::f32);
  const OwnedTensor x = normals({1, 16, 3 * kHead}, DType::f32, 1);
  const OwnedTensor whole = turned(x.tensor, table);
  for (const Index p : {0, 1, 15}) {
    const Tensor row(x.tensor.as<float>() + p * 3 * kHead, {1, 1, 3 * kHead}, DType::f32);
    const OwnedTensor one = turned(row, table, p);
    for (Index c = 0; c < 3 * kHead; ++c) {
      EXPECT_EQ(value_at(one.tensor, 0, c), value_at(whole.tensor, p, c));
    }
  }
}

TEST(Rope, GrowingTheTableKeepsItsValuesAndAFittingOneAllocatesNothing) {
  RopeTable table({.head = kHead}, 4, DType::f32);
  const double before = value_at(table.sine(), 3, 1);
  table.reserve(9);
  EXPECT_EQ(table.positions(), 9);
  EXPECT_EQ(value_at(table.sine(), 3, 1), before);
  if (!test::HeapCount::possible()) GTEST_SKIP() << "the heap cannot be counted here";
  const test::HeapCount count;
  table.reserve(9);
  EXPECT_EQ(count.calls(), 0);
}

TEST(Rope, BadRequestsAreNamed) {
  const RopeTable table({.head = kHead}, 4, DType::f32);
  const OwnedTensor x = normals({2, 4, kHead}, DType::f32, 1);
  const OwnedTensor f64 = normals({2, 4, kHead}, DType::f64, 1);
  const OwnedTensor odd = normals({2, 4, kHead + 2}, DType::f32, 1);
  const OwnedTensor flat = normals({kHead}, DType::f32, 1);
  Tape tape;
  const auto call = [&](const Tensor& t, Index offset = 0) {
    return [&tape, &table, t, offset] { rope(tape.constant(t), table, offset); };
  };
  EXPECT_TRUE(throws<RequestError>(call(x.tensor, 1), {"rope", "1 to 4", "0 to 3", "reserve"}));
  EXPECT_TRUE(throws<RequestError>(call(x.tensor, -1), {"rope", "-1"}));
  EXPECT_TRUE(throws<RequestError>(call(f64.tensor), {"rope", "f32", "f64"}));
  EXPECT_TRUE(throws<RequestError>(call(odd.tensor), {"rope", "head width", "10", "8"}));
  EXPECT_TRUE(throws<RequestError>(call(flat.tensor), {"rope", "(..., T, C)", "(8)"}));
  EXPECT_TRUE(throws<RequestError>([&] { rope({}, table); }, {"rope", "x is missing"}));
  EXPECT_TRUE(throws<RequestError>([] { RopeTable({.head = 7}, 4, DType::f32); }, {"even", "7"}));
  EXPECT_TRUE(throws<RequestError>([] { RopeTable({.head = 8, .base = 0}, 4, DType::f32); },
                                   {"base", "positive", "0"}));
  EXPECT_TRUE(throws<RequestError>([] { RopeTable({.head = 8}, 4, DType::i32); }, {"i32"}));
}

}  // namespace
}  // namespace norma
