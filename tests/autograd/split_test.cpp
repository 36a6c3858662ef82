// Splits: the outputs' gradients are columns of one tensor.
#include <array>

#include <gtest/gtest.h>

#include "norma/autograd/recompute.h"
#include "norma/base/error.h"
#include "norma/ops/linear.h"
#include "norma/tensor/plain.h"
#include "tests/support/expect.h"
#include "tests/support/toy_ops.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::matches;
using test::scaled;
using test::TestLeaf;

class SplitTest : public testing::Test {
 protected:
  double d(Index r, Index c) const { return value_at(seed_.tensor, r, c); }
  Tensor seed(Index begin, Index width) const { return seed_.tensor.columns(begin, width); }
  void backward(std::span<const Var> roots, std::span<const Tensor> seeds) {
    tape_.backward(roots, seeds, {});
  }

  Tape tape_;
  TestLeaf x_{{3, 7}, DType::f64, 1};
  OwnedTensor seed_ = test::normals({3, 7}, DType::f64, 2);
};

TEST_F(SplitTest, PartsAreViewsAndTheirGradientsMeet) {
  const Var h = scaled(tape_.watch(x_), 2);
  const auto [q, k, v, none] = test::split(h, {2, 4, 1});
  EXPECT_FALSE(none);
  EXPECT_EQ(value_at(k.value(), 1, 3), value_at(h.value(), 1, 5));
  const std::array roots = {scaled(q, 3), scaled(k, 5), scaled(v, 7)};
  const std::array seeds = {seed(0, 2), seed(2, 4), seed(6, 1)};
  backward(roots, seeds);
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) {
    return 2 * d(r, c) * (c < 2 ? 3 : c < 6 ? 5 : 7);
  }));
}

TEST_F(SplitTest, OfALeaf) {
  const auto parts = test::split(tape_.watch(x_), {3, 4});
  const std::array roots = {scaled(parts[0], 3), scaled(parts[1], 5)};
  const std::array seeds = {seed(0, 3), seed(3, 4)};
  backward(roots, seeds);
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) { return d(r, c) * (c < 3 ? 3 : 5); }));
}

TEST_F(SplitTest, AnUnusedPartHasGradientZero) {
  for (int used = 0; used < 3; ++used) {
    tape_.reset();
    x_.fresh = true;
    const auto parts = test::split(scaled(tape_.watch(x_), 2), {2, 4, 1});
    const Index begin = used == 0 ? 0 : used == 1 ? 2 : 6;
    const Index width = parts[static_cast<std::size_t>(used)].shape().cols();
    const Var y = scaled(parts[static_cast<std::size_t>(used)], 3);
    const Tensor along = seed(begin, width);
    backward({&y, 1}, {&along, 1});
    EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) {
      return c >= begin && c < begin + width ? 6 * d(r, c) : 0;
    }));
  }
}

TEST_F(SplitTest, APartUsedTwiceSums) {
  const auto parts = test::split(scaled(tape_.watch(x_), 2), {3, 4});
  const std::array roots = {test::plus(parts[0], scaled(parts[0], 4)), scaled(parts[1], 1)};
  const std::array seeds = {seed(0, 3), seed(3, 4)};
  backward(roots, seeds);
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) { return 2 * d(r, c) * (c < 3 ? 5 : 1); }));
}

TEST_F(SplitTest, TheInputMayBeUsedElsewhereBeforeAndAfter) {
  const Var h = scaled(tape_.watch(x_), 2);
  const Var before = scaled(h, 10);
  const auto parts = test::split(h, {3, 4});
  const Var joined = test::join(scaled(parts[0], 3), scaled(parts[1], 5));
  const Var after = scaled(h, 100);
  const Var y = test::plus(test::plus(before, joined), after);
  backward({&y, 1}, {&seed_.tensor, 1});
  EXPECT_TRUE(
      matches(x_.grad, [&](Index r, Index c) { return 2 * d(r, c) * (110 + (c < 3 ? 3 : 5)); }));
}

TEST_F(SplitTest, PartsThatAreRootsThemselves) {
  const auto parts = test::split(scaled(tape_.watch(x_), 2), {3, 4});
  const std::array roots = {parts[1], scaled(parts[0], 3)};
  const std::array seeds = {seed(3, 4), seed(0, 3)};
  backward(roots, seeds);
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) { return 2 * d(r, c) * (c < 3 ? 3 : 1); }));
}

TEST_F(SplitTest, ASplitOfAPart) {
  const auto outer = test::split(scaled(tape_.watch(x_), 2), {5, 2});
  const auto inner = test::split(outer[0], {1, 4});
  const std::array roots = {scaled(inner[0], 3), scaled(inner[1], 5), scaled(outer[1], 7)};
  const std::array seeds = {seed(0, 1), seed(1, 4), seed(5, 2)};
  backward(roots, seeds);
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) {
    return 2 * d(r, c) * (c < 1 ? 3 : c < 5 ? 5 : 7);
  }));
}

TEST_F(SplitTest, GradientsOfKeptPartsStay) {
  const Var h = scaled(tape_.watch(x_), 2);
  const Var other = scaled(h, 10);  // adds to h's gradient after the split has handed over its own
  const auto parts = test::split(h, {3, 4});
  tape_.keep_grad(parts[0]);
  tape_.keep_grad(h);
  const std::array roots = {scaled(parts[0], 3), parts[1], other};
  const std::array seeds = {seed(0, 3), seed(3, 4), seed_.tensor};
  backward(roots, seeds);
  EXPECT_TRUE(matches(tape_.grad(parts[0]), [&](Index r, Index c) { return 3 * d(r, c); }));
  EXPECT_TRUE(
      matches(tape_.grad(h), [&](Index r, Index c) { return d(r, c) * (c < 3 ? 13 : 11); }));
}

TEST_F(SplitTest, TwiceOnOneTapeDoubles) {
  const auto parts = test::split(scaled(tape_.watch(x_), 2), {3, 4});
  const Var y = test::join(scaled(parts[0], 3), parts[1]);
  for (int i = 1; i <= 2; ++i) {
    tape_.backward({&y, 1}, {&seed_.tensor, 1}, {.keep = true});
    EXPECT_TRUE(
        matches(x_.grad, [&](Index r, Index c) { return i * 2 * d(r, c) * (c < 3 ? 3 : 1); }));
  }
}

TEST_F(SplitTest, InsideARecomputedBlock) {
  const Var h = scaled(tape_.watch(x_), 2);
  const Var y = recompute(tape_, {h}, [](std::span<const Var> in) {
    const auto parts = test::split(scaled(in[0], 3), {3, 4});
    return test::join(scaled(parts[0], 5), parts[1]);
  });
  backward({&y, 1}, {&seed_.tensor, 1});
  EXPECT_TRUE(
      matches(x_.grad, [&](Index r, Index c) { return 2 * 3 * d(r, c) * (c < 3 ? 5 : 1); }));
}

TEST_F(SplitTest, StridedPartsFeedProducts) {
  TestLeaf w({5, 4}, DType::f64, 8);
  const OwnedTensor along = test::normals({3, 5}, DType::f64, 9);
  const auto parts = test::split(scaled(tape_.watch(x_), 2), {3, 4});
  const Var y = linear(parts[1], tape_.watch(w));
  backward({&y, 1}, {&along.tensor, 1});
  const auto want = [&](Index r, Index c) {
    double sum = 0;
    for (Index o = 0; o < 5 && c >= 3; ++o) {
      sum += 2 * value_at(along.tensor, r, o) * value_at(w.value, o, c - 3);
    }
    return sum;
  };
  EXPECT_TRUE(matches(x_.grad, want));
}

TEST_F(SplitTest, PartsThatDoNotCoverTheInputAreRefusedOrHaveZeroElsewhere) {
  // Fill the arena with something that is not zero, then free it all.
  fill(tape_.output({64, 64}, DType::f64).value(), 1e30);
  tape_.reset();
  const Var h = scaled(tape_.watch(x_), 2);
  try {
    const auto parts = test::split(h, {3});
    const Var y = scaled(parts[0], 3);
    const Tensor along = seed(0, 3);
    backward({&y, 1}, {&along, 1});
  } catch (const RequestError&) {
    return;
  }
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) { return c < 3 ? 6 * d(r, c) : 0; }));
}

}  // namespace
}  // namespace norma
