#include "norma/autograd/backward.h"

#include <array>

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "norma/tensor/plain.h"
#include "tests/support/expect.h"
#include "tests/support/toy_ops.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::matches;
using test::TestLeaf;
using test::throws;

class BackwardTest : public testing::Test {
 protected:
  void backward(Var root, const Tensor& seed) { tape_.backward({&root, 1}, {&seed, 1}, {}); }

  Tape tape_;
  TestLeaf x_{{3, 4}, DType::f64, 1};
  TestLeaf w_{{3, 4}, DType::f64, 2};
  OwnedTensor seed_ = test::normals({3, 4}, DType::f64, 3);

  double x(Index r, Index c) const { return value_at(x_.value, r, c); }
  double w(Index r, Index c) const { return value_at(w_.value, r, c); }
  double d(Index r, Index c) const { return value_at(seed_.tensor, r, c); }
};

TEST_F(BackwardTest, AnySeedOfTheShapeOfTheRoot) {
  backward(test::times(tape_.watch(x_), tape_.watch(w_)), seed_.tensor);
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) { return d(r, c) * w(r, c); }));
  EXPECT_TRUE(matches(w_.grad, [&](Index r, Index c) { return d(r, c) * x(r, c); }));
}

TEST_F(BackwardTest, ASeedMayHaveStridedRowsAndStaysAsItWas) {
  const OwnedTensor wide = test::strided({3, 4}, DType::f64, 3);
  copy(seed_.tensor, wide.tensor);
  backward(test::times(tape_.watch(x_), tape_.watch(w_)), wide.tensor);
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) { return d(r, c) * w(r, c); }));
  EXPECT_TRUE(test::same_bits(wide.tensor, seed_.tensor));
}

TEST_F(BackwardTest, AScalarNeedsNoSeed) {
  tape_.backward(test::half_square(tape_.watch(x_)));
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) { return x(r, c); }));
}

TEST_F(BackwardTest, FromTheMiddleOfTheTape) {
  const Var a = test::times(tape_.watch(x_), tape_.watch(w_));
  test::scaled(test::scaled(a, 5), 7);  // recorded later, not reached
  backward(a, seed_.tensor);
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) { return d(r, c) * w(r, c); }));
}

TEST_F(BackwardTest, SeveralRootsOfWhichOneFeedsTheOther) {
  const OwnedTensor other = test::normals({3, 4}, DType::f64, 4);
  const Var a = test::scaled(tape_.watch(x_), 2);
  const Var b = test::times(a, tape_.watch(w_));
  const std::array roots = {a, b};
  const std::array seeds = {seed_.tensor, other.tensor};
  tape_.backward(roots, seeds, {});
  const auto e = [&](Index r, Index c) { return value_at(other.tensor, r, c); };
  EXPECT_TRUE(
      matches(x_.grad, [&](Index r, Index c) { return 2 * (d(r, c) + e(r, c) * w(r, c)); }));
  EXPECT_TRUE(matches(w_.grad, [&](Index r, Index c) { return 2 * e(r, c) * x(r, c); }));
}

TEST_F(BackwardTest, ARootNamedTwiceCountsTwice) {
  const Var y = test::scaled(tape_.watch(x_), 2);
  const std::array roots = {y, y};
  const std::array seeds = {seed_.tensor, seed_.tensor};
  tape_.backward(roots, seeds, {.keep = true});
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) { return 4 * d(r, c); }));

  x_.fresh = true;
  const Var loss = test::half_square(tape_.watch(x_));
  const std::array scalars = {loss, loss};
  tape_.backward(scalars, {}, {});
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) { return 2 * x(r, c); }));
}

TEST_F(BackwardTest, AValueUsedTwiceSumsItsGradients) {
  const Var a = test::scaled(tape_.watch(x_), 2);
  const Var y = test::plus(test::times(a, tape_.watch(w_)), test::scaled(a, 3));
  backward(y, seed_.tensor);
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) { return 2 * d(r, c) * (w(r, c) + 3); }));
}

TEST_F(BackwardTest, AnInputThatStandsTwiceInOneOp) {
  const Var leaf = tape_.watch(x_);
  backward(test::times(leaf, leaf), seed_.tensor);
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) { return 2 * d(r, c) * x(r, c); }));

  tape_.reset();
  x_.fresh = true;
  const Var a = test::scaled(tape_.watch(x_), 3);
  backward(test::times(a, a), seed_.tensor);
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) { return 18 * d(r, c) * x(r, c); }));
}

TEST_F(BackwardTest, ALeafWatchedTwiceIsOneLeaf) {
  backward(test::times(tape_.watch(x_), tape_.watch(x_)), seed_.tensor);
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) { return 2 * d(r, c) * x(r, c); }));
}

TEST_F(BackwardTest, ALeafUsedByTwoOps) {
  const Var leaf = tape_.watch(x_);
  backward(test::plus(test::scaled(leaf, 3), test::times(leaf, tape_.watch(w_))), seed_.tensor);
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) { return d(r, c) * (3 + w(r, c)); }));
}

TEST_F(BackwardTest, AFrozenLeafIsLeftAlone) {
  x_.needs_grad = false;
  Leaf bare{.value = w_.value, .grad = {}, .needs_grad = false};  // needs no gradient memory either
  TestLeaf live({3, 4}, DType::f64, 9);
  const Var frozen = tape_.watch(x_);
  EXPECT_FALSE(frozen.needs_grad());
  const Var y = test::plus(test::times(frozen, tape_.watch(live)), tape_.watch(bare));
  backward(y, seed_.tensor);
  EXPECT_TRUE(matches(live.grad, [&](Index r, Index c) { return d(r, c) * x(r, c); }));
  EXPECT_TRUE(matches(x_.grad, [](Index, Index) { return 99.0; }));
  EXPECT_TRUE(x_.fresh);
}

TEST_F(BackwardTest, NothingIsRecordedForConstantsAlone) {
  const Var y = test::scaled(tape_.constant(x_.value), 2);
  EXPECT_FALSE(y.needs_grad());
  EXPECT_EQ(tape_.entry_count(), 0U);
}

TEST_F(BackwardTest, TwoMicroBatchesAddUp) {
  const OwnedTensor second = test::normals({3, 4}, DType::f64, 5);
  for (const Tensor& batch : {seed_.tensor, second.tensor}) {
    tape_.reset();
    tape_.backward(test::project(tape_.watch(w_), batch));
  }
  EXPECT_TRUE(
      matches(w_.grad, [&](Index r, Index c) { return d(r, c) + value_at(second.tensor, r, c); }));
  w_.fresh = true;  // the next step replaces
  tape_.reset();
  tape_.backward(test::project(tape_.watch(w_), second.tensor));
  EXPECT_TRUE(matches(w_.grad, [&](Index r, Index c) { return value_at(second.tensor, r, c); }));
}

TEST_F(BackwardTest, TwiceOnOneTapeDoublesTheLeavesAndNothingElse) {
  const Var a = test::scaled(tape_.watch(x_), 2);
  const Var y = test::plus(a, test::times(a, tape_.watch(w_)));
  tape_.keep_grad(a);
  for (int i = 1; i <= 3; ++i) {
    tape_.backward({&y, 1}, {&seed_.tensor, 1}, {.keep = true});
    EXPECT_TRUE(
        matches(x_.grad, [&](Index r, Index c) { return i * 2 * d(r, c) * (1 + w(r, c)); }));
    EXPECT_TRUE(matches(tape_.grad(a), [&](Index r, Index c) { return d(r, c) * (1 + w(r, c)); }));
  }
}

TEST_F(BackwardTest, AnOpThatIsNotReachedDoesNotTouchItsLeaves) {
  const Var leaf = tape_.watch(x_);
  test::times(leaf, tape_.watch(w_));
  backward(test::scaled(leaf, 3), seed_.tensor);
  EXPECT_TRUE(matches(x_.grad, [&](Index r, Index c) { return 3 * d(r, c); }));
  EXPECT_TRUE(matches(w_.grad, [](Index, Index) { return 99.0; }));
  EXPECT_TRUE(w_.fresh);
}

TEST_F(BackwardTest, BadRootsAndSeedsAreRefused) {
  const Var y = test::scaled(tape_.watch(x_), 2);
  const OwnedTensor narrow({3, 3}, DType::f64);
  const OwnedTensor f32({3, 4}, DType::f32);
  EXPECT_TRUE(throws<RequestError>([&] { tape_.backward(y); }, {"backward", "a scalar", "(3, 4)"}));
  EXPECT_TRUE(
      throws<RequestError>([&] { backward(y, narrow.tensor); }, {"the seed", "(3, 4)", "(3, 3)"}));
  EXPECT_THROW(backward(y, f32.tensor), RequestError);
  EXPECT_TRUE(throws<RequestError>([&] { backward(tape_.watch(x_), seed_.tensor); }, {"leaf"}));
  EXPECT_TRUE(throws<RequestError>([&] { backward(tape_.constant(x_.value), seed_.tensor); },
                                   {"backward", "wants a gradient"}));
  const std::array roots = {y, y};
  EXPECT_TRUE(throws<RequestError>(
      [&] {
        tape_.backward(roots, {&seed_.tensor, 1}, {});
      },
      {"2 roots", "got 1"}));
}

TEST_F(BackwardTest, ALeafWithoutFittingGradientMemoryIsRefused) {
  const OwnedTensor narrow({3, 3}, DType::f64);
  Leaf bad{.value = x_.value, .grad = narrow.tensor};
  EXPECT_TRUE(throws<RequestError>([&] { tape_.watch(bad); }, {"(3, 4)", "gradient", "(3, 3)"}));
  bad.grad = {};
  EXPECT_THROW(tape_.watch(bad), RequestError);
}

TEST_F(BackwardTest, AnOpWithoutAGradientRefusesWhenOneIsAsked) {
  const auto round_down = [&](Var x) {
    const Var y = tape_.output(x.shape(), x.dtype());
    tape_.record_without_gradient("round_down", {x, Var{}}, {y});
    return y;
  };
  const Var leaf = tape_.watch(x_);
  EXPECT_TRUE(
      throws<RequestError>([&] { round_down(leaf); }, {"round_down has no gradient", "detach()"}));
  EXPECT_FALSE(round_down(leaf.detach()).needs_grad());
  EXPECT_FALSE(round_down(tape_.constant(x_.value)).needs_grad());
  EXPECT_NO_THROW(tape_.evaluate([&] { return round_down(leaf); }));
}

TEST_F(BackwardTest, MoreInputsOrOutputsThanAnEntryHoldsAreRefused) {
  const Var a = tape_.watch(x_);
  const Var y = tape_.output({}, DType::f64);
  const auto rule = [](Backward&) {};
  EXPECT_THROW(tape_.record("wide", {a, a, a, a, a, a, a, a, a}, {y}, rule), Error);
  EXPECT_THROW(tape_.record("many", {a}, {y, y, y, y, y}, rule), Error);
}

}  // namespace
}  // namespace norma
