// Ops that hand a gradient through (add, reshape) let values share its memory. These graphs go
// wrong when a shared gradient is added to without being copied first.
#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "norma/autograd/backward.h"
#include "norma/base/rng.h"
#include "norma/tensor/plain.h"
#include "tests/support/expect.h"
#include "tests/support/toy_ops.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::matches;
using test::plus;
using test::scaled;
using test::TestLeaf;
using test::times;

class SharingTest : public testing::Test {
 protected:
  void backward(Var root) { tape_.backward({&root, 1}, {&seed_.tensor, 1}, {}); }
  double d(Index r, Index c) const { return value_at(seed_.tensor, r, c); }
  Tape tape_;
  TestLeaf x_{{2, 6}, DType::f64, 1};
  TestLeaf w_{{2, 6}, DType::f64, 2};
  OwnedTensor seed_ = test::normals({2, 6}, DType::f64, 3);
};

TEST_F(SharingTest, AnOpBetweenTheBranchAndTheAddDoesNotSpoilTheBranch) {
  const Var a = scaled(tape_.watch(x_), 2);
  const Var b = scaled(a, 3);  // the branch
  const Var between =
      times(a, tape_.watch(w_));  // adds to a's gradient before b's rule reads its own
  const Var y = plus(a, b);       // a and b share one gradient
  backward(plus(y, between));     // and between shares it too
  EXPECT_TRUE(matches(
      x_.grad, [&](Index r, Index c) { return 2 * d(r, c) * (1 + 3 + value_at(w_.value, r, c)); }));
  EXPECT_TRUE(
      matches(w_.grad, [&](Index r, Index c) { return 2 * d(r, c) * value_at(x_.value, r, c); }));
}

TEST_F(SharingTest, TheSameWithTheBranchFirstInTheAdd) {
  const Var a = scaled(tape_.watch(x_), 2);
  const Var b = scaled(a, 3);
  const Var between = scaled(a, 5);
  backward(plus(between, plus(b, a)));
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) { return 2 * 9 * d(r, c); }));
}

TEST_F(SharingTest, AValueAddedToItself) {
  const Var a = scaled(tape_.watch(x_), 2);
  backward(plus(plus(a, a), a));
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) { return 6 * d(r, c); }));
}

TEST_F(SharingTest, LeavesOfASumHaveGradientsOfTheirOwn) {
  backward(plus(tape_.watch(x_), tape_.watch(w_)));
  EXPECT_TRUE(test::same_bits(x_.grad, seed_.tensor));
  EXPECT_TRUE(test::same_bits(w_.grad, seed_.tensor));
  fill(x_.grad, 0);
  EXPECT_TRUE(test::same_bits(w_.grad, seed_.tensor));
}

TEST_F(SharingTest, AResidualStream) {
  Var h = scaled(tape_.watch(x_), 1);
  double slope = 1;
  for (int layer = 0; layer < 6; ++layer) {
    const double factor = 0.3 * (layer + 1);
    h = plus(h, scaled(scaled(h, factor), 0.5));
    slope *= 1 + factor / 2;
  }
  backward(h);
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) { return slope * d(r, c); }));
}

TEST_F(SharingTest, AKeptGradientIsNotOverwrittenByThoseWhoSharedIt) {
  const Var a = scaled(tape_.watch(x_), 2);
  const Var b = scaled(a, 3);
  const Var between = scaled(a, 5);
  const Var y = plus(a, b);
  const Var z = plus(y, between);
  for (const Var v : {a, b, between, y, z}) tape_.keep_grad(v);
  backward(z);
  for (const Var v : {b, between, y, z}) EXPECT_TRUE(test::same_bits(tape_.grad(v), seed_.tensor));
  EXPECT_TRUE(matches(tape_.grad(a), [&](Index r, Index c) { return 9 * d(r, c); }));
}

TEST_F(SharingTest, ReshapesShareAndStillSum) {
  const Var a = scaled(tape_.watch(x_), 2);
  const Var tall = test::reshape(a, {4, 3});
  const Var flat = test::reshape(tall, {2, 6});
  backward(plus(flat, scaled(a, 4)));
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) { return 2 * 5 * d(r, c); }));
}

TEST_F(SharingTest, ARootThatIsPassedThroughKeepsItsOwnSeed) {
  const Var a = scaled(tape_.watch(x_), 2);
  const Var b = plus(a, scaled(a, 3));
  const std::array roots = {a, b};
  const std::array seeds = {seed_.tensor, seed_.tensor};
  tape_.backward(roots, seeds, {});
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) { return 2 * 5 * d(r, c); }));
}

TEST_F(SharingTest, AnOutputThatGotNoGradientPassesNone) {
  // Two outputs, each handed through to its own input; only the first is used.
  const Var a = scaled(tape_.watch(x_), 2);
  const Var b = scaled(tape_.watch(w_), 2);
  const Var first = tape_.output(a.shape(), a.dtype());
  const Var second = tape_.output(b.shape(), b.dtype());
  copy(a.value(), first.value());
  copy(b.value(), second.value());
  tape_.record("pair", {a, b}, {first, second}, [=](Backward& back) {
    back.pass(a, first);
    back.pass(b, second);
  });
  ASSERT_NO_THROW(backward(first));
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) { return 2 * d(r, c); }));
}

/// The scalar ½ Σ x², computed in place: x's memory holds its gradient afterwards, which is x
/// itself.
Var half_square_in_place(Var x) {
  const Tensor memory = x.value();
  const Var y = x.tape().output({}, x.dtype());
  set_value(y.value(), 0, 0, test::dot(memory, memory) / 2);
  x.tape().consume(x);
  x.tape().record("half_square_in_place", {x}, {y}, [=](Backward& back) { back.lend(x, memory); });
  return y;
}

TEST_F(SharingTest, ALentGradientIsUsedFromTheValuesMemoryAndCopiedBeforeAdding) {
  const Var a = scaled(tape_.watch(x_), 2);
  const Var branch = scaled(a, 3);  // adds to the lent gradient of a
  const std::array roots = {branch, half_square_in_place(a)};
  const OwnedTensor one = test::numbers({}, DType::f64, {1});
  const std::array seeds = {seed_.tensor, one.tensor};
  tape_.backward(roots, seeds, {.keep = true});
  const auto once = [&](Index r, Index c) {
    return 2 * (3 * d(r, c) + 2 * value_at(x_.value, r, c));
  };
  EXPECT_TRUE(matches(x_.grad, once));
  // The lent memory was not added to: a second pass over the same tape doubles exactly.
  tape_.backward(roots, seeds, {.keep = true});
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) { return 2 * once(r, c); }));
}

TEST_F(SharingTest, ALentGradientCanBeHandedThrough) {
  const Var a = scaled(tape_.watch(x_), 2);
  const Var b = scaled(tape_.watch(w_), 2);
  const Var sum = plus(a, b);
  const auto want = [&](Index r, Index c) {
    return 4 * (value_at(x_.value, r, c) + value_at(w_.value, r, c));
  };
  tape_.backward(half_square_in_place(sum));
  EXPECT_TRUE(matches(x_.grad, want));
  EXPECT_TRUE(matches(w_.grad, want));
}

/// factor · x + x in one op whose rule hands the gradient through and then adds its own part. Tells
/// whether it was given the gradient's own memory for that.
Var scaled_beside_itself(Var x, double factor, bool* added) {
  const Var y = x.tape().output(x.shape(), x.dtype());
  for (Index r = 0; r < x.shape().rows(); ++r) {
    for (Index c = 0; c < x.shape().cols(); ++c) {
      set_value(y.value(), r, c, (factor + 1) * value_at(x.value(), r, c));
    }
  }
  x.tape().record("scaled_beside_itself", {x, x}, {y}, [=](Backward& back) {
    back.pass(x, y);
    const Backward::Target own = back.into(x);
    *added = own.into == Into::add;
    const Tensor dy = back.grad(y);
    for (Index r = 0; r < x.shape().rows(); ++r) {
      for (Index c = 0; c < x.shape().cols(); ++c) {
        set_value(
            own.grad, r, c, (*added ? value_at(own.grad, r, c) : 0) + factor * value_at(dy, r, c));
      }
    }
  });
  return y;
}

TEST_F(SharingTest, WhatFollowsAPassIsAddedToTheSameMemoryHoweverTheGradientCame) {
  bool added = false;
  const auto dx = [&](Index r, Index c) { return 2 * 4 * d(r, c); };
  backward(scaled(scaled_beside_itself(scaled(tape_.watch(x_), 2), 3, &added), 1));
  EXPECT_TRUE(added) << "where the gradient is shared";
  EXPECT_TRUE(matches(x_.grad, dx));

  added = false;
  const Var a = scaled(tape_.watch(w_), 2);
  const Var y = scaled_beside_itself(a, 3, &added);
  tape_.backward(half_square_in_place(y));
  EXPECT_TRUE(added) << "where it is lent and has to be copied";
  EXPECT_TRUE(
      matches(w_.grad, [&](Index r, Index c) { return 2 * 4 * 4 * 2 * value_at(w_.value, r, c); }));
}

/// Σ x; tells whether its own gradient was known to be 1.
Var total(Var x, bool* unit) {
  const Var y = x.tape().output({}, x.dtype());
  double sum = 0;
  for (Index i = 0; i < x.shape().count(); ++i) {
    sum += value_at(x.value(), i / x.shape().cols(), i % x.shape().cols());
  }
  set_value(y.value(), 0, 0, sum);
  x.tape().record("total", {x}, {y}, [=](Backward& back) {
    *unit = back.is_unit_seed(y);
    const Backward::Target target = back.into(x);
    fill(target.grad, value_at(back.grad(y), 0, 0));
  });
  return y;
}

TEST_F(SharingTest, ARootsOwnSeedIsKnownWithoutReadingIt) {
  bool unit = false;
  const Var root = total(scaled(tape_.watch(x_), 2), &unit);
  tape_.backward(root, {.keep = true});
  EXPECT_TRUE(unit);
  // Given from outside, or twice, it may be anything.
  const OwnedTensor one = test::numbers({}, DType::f64, {1});
  const std::array roots = {root};
  const std::array seeds = {one.tensor};
  tape_.backward(roots, seeds, {.keep = true});
  EXPECT_FALSE(unit);
  const std::array twice = {root, root};
  tape_.backward(twice, {}, {.keep = true});
  EXPECT_FALSE(unit);
}

TEST_F(SharingTest, AUnitSeedThatIsAddedToIsNoneAnyMore) {
  bool unit = true;
  const Var first = total(scaled(tape_.watch(x_), 2), &unit);
  const Var second = scaled(first, 3);
  const std::array roots = {first, second};
  tape_.backward(roots, {}, {});
  EXPECT_FALSE(unit);
  EXPECT_TRUE(matches(x_.grad, [&](Index, Index) { return 2.0 * (1 + 3); }));
}

/// Random graphs whose values are all `coefficient · leaf`, element by element, so that every
/// gradient is known from the forward pass.
TEST_F(SharingTest, RandomGraphsOfSumsProductsReshapesAndSplits) {
  struct Node {
    Var value;
    std::array<double, 12> of_x;  // d value / d x, element by element; the same for w below
    std::array<double, 12> of_w;
  };
  for (std::uint64_t graph = 0; graph < 300; ++graph) {
    SCOPED_TRACE(graph);
    std::uint64_t draws = 0;
    const auto pick = [&](std::size_t n) {
      return static_cast<std::size_t>(random_word({graph, 77}, draws++)) % n;
    };
    tape_.reset();
    x_.fresh = w_.fresh = true;
    fill(x_.grad, 0);
    fill(w_.grad, 0);
    Node x{tape_.watch(x_), {}, {}};
    Node w{tape_.watch(w_), {}, {}};
    x.of_x.fill(1);
    w.of_w.fill(1);
    std::vector<Node> nodes = {x, w};
    for (int step = 0; step < 14; ++step) {
      Node next = nodes[pick(nodes.size())];
      const Node other = nodes[pick(nodes.size())];
      const double factor = 0.5 + 0.25 * static_cast<double>(pick(5));
      const auto scale_columns = [&](Index begin, double by) {
        for (std::size_t i = 0; i < 12; ++i) {
          if (static_cast<Index>(i) % 6 < begin) continue;
          next.of_x[i] *= by;
          next.of_w[i] *= by;
        }
      };
      switch (pick(5)) {
        case 0:
          next.value = scaled(next.value, factor);
          scale_columns(0, factor);
          break;
        case 1:
          next.value = test::reshape(test::reshape(next.value, {12}), {2, 6});
          break;
        case 2: {  // the second half of the columns is scaled, the first is only moved
          const auto parts = test::split(next.value, {3, 3});
          next.value = test::join(parts[0], scaled(parts[1], factor));
          scale_columns(3, factor);
          break;
        }
        default:
          next.value = plus(next.value, other.value);
          for (std::size_t i = 0; i < 12; ++i) {
            next.of_x[i] += other.of_x[i];
            next.of_w[i] += other.of_w[i];
          }
      }
      nodes.push_back(next);
    }
    const Node& end = nodes.back();
    const Node& middle = nodes[2 + pick(nodes.size() - 2)];
    const std::array roots = {end.value, middle.value};
    const std::array seeds = {seed_.tensor, seed_.tensor};
    tape_.backward(roots, seeds, {});
    const auto at = [](Index r, Index c) { return static_cast<std::size_t>(r * 6 + c); };
    ASSERT_TRUE(matches(
        x_.grad,
        [&](Index r, Index c) { return d(r, c) * (end.of_x[at(r, c)] + middle.of_x[at(r, c)]); },
        1e-9));
    ASSERT_TRUE(matches(
        w_.grad,
        [&](Index r, Index c) { return d(r, c) * (end.of_w[at(r, c)] + middle.of_w[at(r, c)]); },
        1e-9));
  }
}

}  // namespace
}  // namespace norma
