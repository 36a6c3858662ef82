// What may be read when: values released by backward, overwritten in place, or forgotten by reset.
#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/base/error.h"
#include "norma/ops/rms_norm.h"
#include "norma/tensor/plain.h"
#include "tests/support/expect.h"
#include "tests/support/toy_ops.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::scaled;
using test::TestLeaf;
using test::throws;

class LifetimeTest : public testing::Test {
 protected:
  void backward(Var root, Tape::BackwardSpec spec = {}) {
    tape_.backward({&root, 1}, {&seed_.tensor, 1}, spec);
  }
  Tape tape_;
  TestLeaf x_{{2, 4}, DType::f64, 1};
  TestLeaf w_{{2, 4}, DType::f64, 2};
  OwnedTensor seed_ = test::normals({2, 4}, DType::f64, 3);
};

TEST_F(LifetimeTest, DetachStopsTheGradient) {
  const Var a = scaled(tape_.watch(x_), 2);
  const Var cut = a.detach();
  EXPECT_FALSE(cut.needs_grad());
  EXPECT_TRUE(a.needs_grad());
  EXPECT_EQ(cut.value().data, a.value().data);
  backward(test::plus(a, test::times(cut, tape_.watch(w_))));
  const auto through_a = [&](Index r, Index c) { return 2 * value_at(seed_.tensor, r, c); };
  EXPECT_TRUE(test::matches(x_.grad, through_a));
  EXPECT_TRUE(test::matches(
      w_.grad, [&](Index r, Index c) { return through_a(r, c) * value_at(x_.value, r, c); }));
}

TEST_F(LifetimeTest, ADetachedLeafGetsNoGradient) {
  backward(test::times(tape_.watch(x_).detach(), tape_.watch(w_)));
  EXPECT_TRUE(x_.fresh);
  EXPECT_EQ(value_at(x_.grad, 0, 0), 99);
}

TEST_F(LifetimeTest, ADetachedValueProtectsTheMemoryItShares) {
  const Var a = scaled(tape_.watch(x_), 2);
  EXPECT_TRUE(tape_.may_overwrite(a));
  const Var cut = a.detach();
  EXPECT_FALSE(tape_.may_overwrite(cut));
  EXPECT_FALSE(tape_.may_overwrite(a)) << "an op in place on a would change cut";
}

TEST_F(LifetimeTest, BackwardGivesValuesBack) {
  const Var a = scaled(tape_.watch(x_), 2);
  const Var b = scaled(a, 3);
  const Var kept = scaled(b, 4);
  const Var y = scaled(kept, 5);
  tape_.keep_value(kept);
  const double kept_value = value_at(kept.value(), 1, 2);
  backward(y);
  EXPECT_TRUE(throws<Error>([&] { a.value(); }, {"given back by backward", "keep_value()"}));
  EXPECT_THROW(b.value(), Error);
  EXPECT_EQ(value_at(kept.value(), 1, 2), kept_value);
  EXPECT_NEAR(value_at(y.value(), 1, 2), 5 * kept_value, 1e-12);  // roots stay
  EXPECT_EQ(b.shape(), (Shape{2, 4}));                            // shapes are always known
}

TEST_F(LifetimeTest, KeepLeavesAllValuesReadable) {
  const Var a = scaled(tape_.watch(x_), 2);
  backward(scaled(a, 3), {.keep = true});
  EXPECT_EQ(value_at(a.value(), 0, 1), 2 * value_at(x_.value, 0, 1));
}

TEST_F(LifetimeTest, ASecondBackwardWithoutKeepIsRefused) {
  const Var y = test::times(scaled(tape_.watch(x_), 2), tape_.watch(w_));
  backward(y);
  EXPECT_TRUE(throws<Error>([&] { backward(y); }, {"keep"}));
}

// The rule of rms_norm on a leaf reads no released value, only released statistics.
TEST_F(LifetimeTest, ASecondBackwardIsRefusedAlsoWhereOnlySavedStatisticsAreGone) {
  const Var y = rms_norm(tape_.watch(x_), {});
  backward(y);
  EXPECT_TRUE(throws<Error>([&] { backward(y); }, {"keep"}));
}

TEST_F(LifetimeTest, KeptGradientsCanBeRead) {
  const Var a = scaled(tape_.watch(x_), 2);
  const Var b = scaled(a, 3);
  tape_.keep_grad(a);
  EXPECT_TRUE(throws<Error>([&] { tape_.grad(a); }, {"keep_grad()", "before backward"}));
  backward(b, {.keep = true});
  const auto want = [&](Index r, Index c) { return 3 * value_at(seed_.tensor, r, c); };
  EXPECT_TRUE(test::matches(tape_.grad(a), want));
  EXPECT_THROW(tape_.grad(b), Error);
  // The next backward starts afresh: nothing reaches a from w alone.
  tape_.backward(test::half_square(tape_.watch(w_)), {.keep = true});
  EXPECT_THROW(tape_.grad(a), Error);
}

TEST_F(LifetimeTest, AConsumedValueCannotBeRead) {
  const Var a = scaled(tape_.watch(x_), 2);
  tape_.consume(a);
  EXPECT_TRUE(throws<Error>([&] { a.value(); }, {"overwritten in place", "before that op"}));
  EXPECT_THROW(scaled(a, 2), Error);
}

TEST_F(LifetimeTest, OnlyTheTapesOwnUnreadValuesMayBeOverwritten) {
  const Var leaf = tape_.watch(x_);
  const Var constant = tape_.constant(w_.value);
  const Var a = scaled(leaf, 2);
  EXPECT_FALSE(tape_.may_overwrite(leaf));
  EXPECT_FALSE(tape_.may_overwrite(constant));
  EXPECT_TRUE(tape_.may_overwrite(a));
  const Var b = scaled(a, 1);
  test::times(b, constant);  // its rule reads b
  EXPECT_FALSE(tape_.may_overwrite(b));
  const Var c = scaled(a, 1);
  const Var view = test::reshape(c, {8});
  EXPECT_FALSE(tape_.may_overwrite(c));
  EXPECT_FALSE(tape_.may_overwrite(view));
}

TEST_F(LifetimeTest, AVarIsRefusedAfterReset) {
  const Var a = scaled(tape_.watch(x_), 2);
  tape_.reset();
  EXPECT_TRUE(throws<Error>([&] { a.value(); }, {"does not know it", "reset"}));
  EXPECT_THROW(a.shape(), Error);
  EXPECT_THROW(scaled(a, 2), Error);
}

TEST_F(LifetimeTest, AVarIsRefusedAfterResetAlsoWhenTheTapeHasNewValues) {
  const Var old = scaled(tape_.watch(x_), 2);
  tape_.reset();
  scaled(tape_.watch(w_), 5);
  EXPECT_THROW(old.value(), Error);
}

TEST_F(LifetimeTest, AVarOfAnotherTapeIsRefused) {
  Tape other;
  const Var theirs = other.watch(x_);
  const Var ours = tape_.watch(w_);
  EXPECT_TRUE(throws<Error>([&] { test::plus(ours, theirs); }, {"does not know it"}));
}

TEST_F(LifetimeTest, EvaluateKeepsTheResultAndNothingElse) {
  const Var leaf = tape_.watch(x_);
  const std::size_t before = tape_.arena().in_use();
  Var inner;
  const Var y = tape_.evaluate([&] {
    EXPECT_FALSE(tape_.recording());
    inner = scaled(leaf, 2);
    return scaled(scaled(inner, 3), 4);
  });
  EXPECT_TRUE(tape_.recording());
  EXPECT_FALSE(y.needs_grad());
  EXPECT_EQ(tape_.entry_count(), 0U);
  EXPECT_NEAR(value_at(y.value(), 1, 3), 24 * value_at(x_.value, 1, 3), 1e-12);
  EXPECT_THROW(inner.value(), Error);
  EXPECT_LE(tape_.arena().in_use() - before, 8 * sizeof(double) + 2 * kAlignment);
}

TEST_F(LifetimeTest, EvaluateMustReturnWhatItMade) {
  const Var leaf = tape_.watch(x_);
  EXPECT_TRUE(throws<RequestError>([&] { tape_.evaluate([&] { return leaf; }); }, {"made itself"}));
  EXPECT_THROW(tape_.evaluate([]() -> Var { throw Error("inside"); }), Error);
  EXPECT_TRUE(tape_.recording());
}

TEST_F(LifetimeTest, GradientsOfAStepAreGivenBackToo) {
  const auto step = [&] {
    tape_.reset();
    backward(test::plus(scaled(tape_.watch(x_), 2), tape_.watch(w_)));
    return tape_.arena().in_use();
  };
  // The root's value stays until reset; all else is free.
  EXPECT_LE(step(), 8 * sizeof(double) + 2 * kAlignment);
}

}  // namespace
}  // namespace norma
