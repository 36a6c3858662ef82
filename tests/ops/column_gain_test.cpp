#include "norma/ops/column_gain.h"

#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/base/error.h"
#include "tests/support/expect.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::TestLeaf;
using test::throws;

TEST(ColumnGain, BlocksOfNeighbouringColumns) {
  const OwnedTensor x = test::numbers({1, 6}, DType::f32, {1, 2, 3, 4, 5, 6});
  const OwnedTensor gain = test::numbers({2}, DType::f32, {10, 100});
  const OwnedTensor want = test::numbers({1, 6}, DType::f32, {5, 10, 15, 200, 250, 300});
  Tape tape;
  const Var y =
      column_gain(tape.constant(x.tensor), tape.constant(gain.tensor), {.mult = 0.5, .groups = 2});
  EXPECT_TRUE(test::same_bits(y.value(), want.tensor));
}

TEST(ColumnGain, ZeroGainStillLearns) {
  TestLeaf x(test::numbers({2, 1}, DType::f32, {3, 4}));
  TestLeaf gain(test::numbers({1}, DType::f32, {0}));
  const OwnedTensor seed = test::numbers({2, 1}, DType::f32, {1, 1});
  Tape tape;
  const Var y = column_gain(tape.watch(x), tape.watch(gain), {.mult = 2});
  const Var roots[] = {y};
  const Tensor seeds[] = {seed.tensor};
  tape.backward(roots, seeds, {});
  EXPECT_EQ(value_at(gain.grad, 0, 0), 14);
  EXPECT_EQ(value_at(x.grad, 0, 0), 0);
}

// 1e8 + 1 − 1e8 is 0 in f32 and 1 in the double sum.
TEST(ColumnGain, SharedGainSumsInDouble) {
  TestLeaf x(test::numbers({3, 1}, DType::f32, {1e8, 1, -1e8}));
  TestLeaf gain(test::numbers({1}, DType::f32, {1}));
  const OwnedTensor seed = test::numbers({3, 1}, DType::f32, {1, 1, 1});
  Tape tape;
  const Var roots[] = {scalar_gain(tape.watch(x), tape.watch(gain))};
  const Tensor seeds[] = {seed.tensor};
  tape.backward(roots, seeds, {});
  EXPECT_EQ(value_at(gain.grad, 0, 0), 1);
}

TEST(ColumnGain, BadInput) {
  const OwnedTensor x = test::normals({2, 6}, DType::f32, 1);
  const OwnedTensor five = test::normals({5}, DType::f32, 2);
  const OwnedTensor wide = test::normals({6}, DType::f64, 3);
  Tape tape;
  const Var v = tape.constant(x.tensor);
  EXPECT_TRUE(throws<RequestError>([&] { column_gain(v, tape.constant(five.tensor)); },
                                   {"column_gain", "gain", "(6)", "(5)"}));
  EXPECT_TRUE(
      throws<RequestError>([&] { column_gain(v, tape.constant(five.tensor), {.groups = 5}); },
                           {"column_gain", "groups", "6", "5"}));
  EXPECT_TRUE(throws<RequestError>([&] { column_gain(v, tape.constant(wide.tensor)); },
                                   {"column_gain", "gain", "f32", "f64"}));
  EXPECT_TRUE(throws<RequestError>([&] { column_gain(v, {}); }, {"column_gain", "missing"}));
}

}  // namespace
}  // namespace norma
