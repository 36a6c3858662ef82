#include "norma/ops/views.h"

#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/base/error.h"
#include "norma/ops/column_gain.h"
#include "tests/support/expect.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::TestLeaf;
using test::throws;

TEST(SplitColumns, PartsShareTheMemory) {
  const OwnedTensor x = test::numbers({2, 4}, DType::f32, {1, 2, 3, 4, 5, 6, 7, 8});
  Tape tape;
  const auto [a, b] = split_columns(tape.constant(x.tensor), {1, 3});
  EXPECT_EQ(a.shape(), (Shape{2, 1}));
  EXPECT_EQ(b.shape(), (Shape{2, 3}));
  EXPECT_EQ(value_at(b.value(), 1, 0), 6);
  EXPECT_EQ(b.value().data, x.tensor.as<float>() + 1);
}

TEST(SplitColumns, UnusedPartHasGradientZero) {
  TestLeaf x(test::numbers({2, 3}, DType::f32, {1, 2, 3, 4, 5, 6}));
  const OwnedTensor gain = test::numbers({1}, DType::f32, {10});
  const OwnedTensor seed = test::numbers({2, 1}, DType::f32, {1, 2});
  const OwnedTensor want = test::numbers({2, 3}, DType::f32, {0, 0, 10, 0, 0, 20});
  Tape tape;
  const auto parts = split_columns(tape.watch(x), {1, 1, 1});
  const Var roots[] = {column_gain(parts[2], tape.constant(gain.tensor))};
  const Tensor seeds[] = {seed.tensor};
  tape.backward(roots, seeds, {});
  EXPECT_TRUE(test::same_bits(x.grad, want.tensor));
}

TEST(SplitColumns, BadInput) {
  const OwnedTensor x = test::normals({2, 6}, DType::f32, 1);
  Tape tape;
  const Var v = tape.constant(x.tensor);
  EXPECT_TRUE(throws<RequestError>(
      [&] {
        split_columns(v, {2, 3});
      },
      {"split_columns", "(2, 6)", "2 + 3 = 5"}));
  EXPECT_TRUE(throws<RequestError>([&] { split_columns(v, {6, 0}); }, {"split_columns", "0"}));
  EXPECT_TRUE(throws<RequestError>(
      [&] {
        split_columns(v, {1, 1, 1, 1, 2});
      },
      {"split_columns", "1 to 4", "5"}));
  EXPECT_TRUE(throws<RequestError>([&] { split_columns({}, {6}); }, {"split_columns", "missing"}));
}

TEST(Reshape, GradientGoesBackInTheOldShape) {
  TestLeaf x(test::numbers({2, 3}, DType::f32, {1, 2, 3, 4, 5, 6}));
  const OwnedTensor gain = test::numbers({2}, DType::f32, {10, 100});
  const OwnedTensor seed = test::numbers({3, 2}, DType::f32, {1, 1, 1, 1, 1, 1});
  const OwnedTensor want = test::numbers({2, 3}, DType::f32, {10, 100, 10, 100, 10, 100});
  Tape tape;
  const Var y = reshape(tape.watch(x), {3, 2});
  EXPECT_EQ(y.value().data, x.value.data);
  const Var roots[] = {column_gain(y, tape.constant(gain.tensor))};
  const Tensor seeds[] = {seed.tensor};
  tape.backward(roots, seeds, {});
  EXPECT_TRUE(test::same_bits(x.grad, want.tensor));
}

TEST(Reshape, BadInput) {
  const OwnedTensor x = test::normals({2, 6}, DType::f32, 1);
  Tape tape;
  const Var v = tape.constant(x.tensor);
  const auto parts = split_columns(v, {4, 2});
  EXPECT_TRUE(throws<RequestError>([&] { reshape(parts[0], {8}); },
                                   {"reshape", "contiguous", "(2, 4)", "6 elements apart"}));
  EXPECT_TRUE(throws<RequestError>(
      [&] {
        reshape(v, {5, 2});
      },
      {"reshape", "10", "(5, 2)", "(2, 6)"}));
  EXPECT_TRUE(throws<RequestError>([&] { reshape({}, {5, 2}); }, {"reshape", "missing"}));
}

}  // namespace
}  // namespace norma
