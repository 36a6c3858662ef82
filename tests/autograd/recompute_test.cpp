#include "norma/autograd/recompute.h"

#include <deque>
#include <vector>

#include <gtest/gtest.h>

#include "norma/ops/linear.h"
#include "norma/ops/rms_norm.h"
#include "norma/tensor/plain.h"
#include "tests/support/expect.h"
#include "tests/support/toy_ops.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::plus;
using test::scaled;
using test::TestLeaf;
using test::throws;

constexpr Index kRows = 24;
constexpr Index kWidth = 32;

/// A residual stack of h + W·rms(h·...)-blocks, recomputed or not.
class Stack {
 public:
  Stack(std::size_t depth, DType dtype) : x_({kRows, kWidth}, dtype, 1) {
    for (std::size_t i = 0; i < depth; ++i) {
      gains_.emplace_back(Shape{kWidth}, dtype, 10 + i);
      weights_.emplace_back(Shape{kWidth, kWidth}, dtype, 100 + i, 0.2);
    }
    along_ = test::normals({kRows, kWidth}, dtype, 2);
  }

  /// One step; returns the loss.
  double run(bool recomputed) {
    tape_.reset();
    tape_.arena().reset_peak();
    for (TestLeaf* leaf : leaves()) leaf->fresh = true;
    Var h = scaled(tape_.watch(x_), 1);
    for (std::size_t i = 0; i < gains_.size(); ++i) {
      const auto block = [gain = &gains_[i], weight = &weights_[i]](std::span<const Var> in) {
        Tape& tape = in[0].tape();
        Var inner = rms_norm(in[0], tape.watch(*gain));
        for (int k = 0; k < 4; ++k) inner = rms_norm(scaled(inner, 1.5), {});
        return plus(in[0], linear(inner, tape.watch(*weight)));
      };
      h = recomputed ? recompute(tape_, {h}, block) : block({&h, 1});
    }
    const Var loss = test::project(h, along_.tensor);
    tape_.backward(loss);
    return value_at(loss.value(), 0, 0);
  }
  std::vector<TestLeaf*> leaves() {
    std::vector<TestLeaf*> all = {&x_};
    for (TestLeaf& leaf : gains_) all.push_back(&leaf);
    for (TestLeaf& leaf : weights_) all.push_back(&leaf);
    return all;
  }
  std::size_t peak() const { return tape_.arena().peak(); }

 private:
  Tape tape_;
  TestLeaf x_;
  std::deque<TestLeaf> gains_, weights_;
  OwnedTensor along_;
};

TEST(Recompute, GivesTheSameBitsOfLossAndAllGradients) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Stack plain(4, dtype);
    Stack again(4, dtype);
    EXPECT_EQ(plain.run(false), again.run(true));
    const auto want = plain.leaves();
    const auto got = again.leaves();
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(test::same_bits(got[i]->grad, want[i]->grad)) << name_of(dtype) << " leaf " << i;
    }
  }
}

TEST(Recompute, ADeepStackNeedsFarLessMemory) {
  Stack plain(12, DType::f32);
  Stack again(12, DType::f32);
  plain.run(false);
  again.run(true);
  EXPECT_LT(static_cast<double>(again.peak()), 0.6 * static_cast<double>(plain.peak()));
}

class RecomputeTest : public testing::Test {
 protected:
  void backward(Var root, Tape::BackwardSpec spec = {}) {
    tape_.backward({&root, 1}, {&seed_.tensor, 1}, spec);
  }
  void expect_multiple(const Leaf& leaf, double factor) const {
    const auto want = [&](Index r, Index c) { return factor * value_at(seed_.tensor, r, c); };
    EXPECT_TRUE(test::matches(leaf.grad, want));
  }
  Tape tape_;
  TestLeaf x_{{3, 5}, DType::f64, 1};
  TestLeaf w_{{3, 5}, DType::f64, 2};
  OwnedTensor seed_ = test::normals({3, 5}, DType::f64, 3);
};

TEST_F(RecomputeTest, ALeafWatchedInsideWhileNoInputWantsAGradient) {
  const Var x = tape_.constant(x_.value);
  const Var y = recompute(tape_, {x}, [w = &w_](std::span<const Var> in) {
    return test::times(in[0], in[0].tape().watch(*w));
  });
  backward(scaled(y, 3));
  const auto want = [&](Index r, Index c) {
    return 3 * value_at(seed_.tensor, r, c) * value_at(x_.value, r, c);
  };
  EXPECT_TRUE(test::matches(w_.grad, want));
}

TEST_F(RecomputeTest, ABlockInWhichNothingWantsAGradient) {
  // The first blocks of a model whose embedding and first layers are frozen.
  w_.needs_grad = false;
  const Var x = tape_.constant(x_.value);
  const Var frozen = recompute(tape_, {x}, [w = &w_](std::span<const Var> in) {
    return plus(in[0], in[0].tape().watch(*w));
  });
  const Var y = plus(frozen, tape_.watch(x_));
  ASSERT_NO_THROW(backward(y));
  expect_multiple(x_, 1);
}

TEST_F(RecomputeTest, Nested) {
  const Var y = recompute(tape_, {tape_.watch(x_)}, [w = &w_](std::span<const Var> in) {
    Tape& tape = in[0].tape();
    const Var a = scaled(in[0], 2);
    const Var b = recompute(tape, {a}, [w](std::span<const Var> inner) {
      return plus(scaled(inner[0], 3), scaled(inner[0].tape().watch(*w), 7));
    });
    return plus(scaled(b, 5), a);
  });
  backward(y);
  expect_multiple(x_, 2 * (3 * 5 + 1));
  expect_multiple(w_, 35);
}

TEST_F(RecomputeTest, InsideEvaluateItOnlyComputes) {
  const Var leaf = tape_.watch(x_);
  const Var y = tape_.evaluate([&] {
    return recompute(
        tape_, {leaf}, [](std::span<const Var> in) { return scaled(scaled(in[0], 2), 3); });
  });
  EXPECT_EQ(tape_.entry_count(), 0U);
  EXPECT_FALSE(y.needs_grad());
  EXPECT_NEAR(value_at(y.value(), 2, 4), 6 * value_at(x_.value, 2, 4), 1e-13);
}

TEST_F(RecomputeTest, InputsUsedElsewhereUnusedOrWithoutGradient) {
  const Var a = scaled(tape_.watch(x_), 2);
  const Var unused = scaled(tape_.watch(w_), 2);
  const Var before = scaled(a, 10);
  const Var y =
      recompute(tape_, {a, unused, tape_.constant(w_.value)}, [](std::span<const Var> in) {
        return plus(scaled(in[0], 3), scaled(in[2], 5));
      });
  const Var after = scaled(a, 100);
  backward(plus(plus(before, y), after));
  expect_multiple(x_, 2 * 113);
  EXPECT_TRUE(w_.fresh) << "nothing reached w";
}

TEST_F(RecomputeTest, TheSameInputTwice) {
  const Var a = scaled(tape_.watch(x_), 2);
  const Var y = recompute(tape_, {a, a}, [](std::span<const Var> in) {
    return plus(scaled(in[0], 3), scaled(in[1], 5));
  });
  backward(y);
  expect_multiple(x_, 2 * 8);
}

TEST_F(RecomputeTest, TwiceOnOneTapeDoubles) {
  const Var y = recompute(tape_, {tape_.watch(x_)}, [](std::span<const Var> in) {
    return scaled(scaled(in[0], 2), 3);
  });
  backward(y, {.keep = true});
  expect_multiple(x_, 6);
  backward(y, {.keep = true});
  expect_multiple(x_, 12);
}

TEST_F(RecomputeTest, LeavesTheTapeAsItFoundIt) {
  const Var a = scaled(tape_.watch(x_), 2);
  const Var y =
      recompute(tape_, {a}, [](std::span<const Var> in) { return scaled(scaled(in[0], 3), 5); });
  const std::size_t entries = tape_.entry_count();
  const std::size_t in_use = tape_.arena().in_use();
  backward(y, {.keep = true});
  EXPECT_EQ(tape_.entry_count(), entries);
  EXPECT_EQ(tape_.arena().in_use(), in_use);
  EXPECT_EQ(value_at(a.value(), 1, 1), 2 * value_at(x_.value, 1, 1));
}

TEST_F(RecomputeTest, OnlyTheBlocksResultIsHeld) {
  const Var a = scaled(tape_.watch(x_), 2);
  const std::size_t before = tape_.arena().in_use();
  recompute(tape_, {a}, [](std::span<const Var> in) {
    Var h = in[0];
    for (int i = 0; i < 20; ++i) h = scaled(h, 1.1);
    return h;
  });
  EXPECT_LE(tape_.arena().in_use() - before, 15 * sizeof(double) + 2 * kAlignment);
}

TEST_F(RecomputeTest, BadBlocksAreRefused) {
  const Var x = tape_.watch(x_);
  const auto first = [](std::span<const Var> in) { return in[0]; };
  EXPECT_TRUE(throws<RequestError>([&] { recompute(tape_, {x}, first); }, {"made itself"}));
  EXPECT_TRUE(throws<RequestError>([&] { recompute(tape_, {}, first); }, {"recompute", "1 to 8"}));
  EXPECT_TRUE(throws<RequestError>(
      [&] {
        recompute(tape_, {x, x, x, x, x, x, x, x, x}, first);
      },
      {"recompute", "1 to 8"}));
}

}  // namespace
}  // namespace norma
