// The loss of a head taken a few rows at a time: the same as its two parts, in less memory.
#include "norma/ops/head_loss.h"

#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/base/error.h"
#include "norma/ops/linear.h"
#include "norma/tensor/buffer.h"
#include "norma/tensor/plain.h"
#include "norma/tensor/planning.h"
#include "tests/support/expect.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::TestLeaf;
using test::throws;

class HeadLossTest : public testing::Test {
 protected:
  HeadLossTest() {
    for (Index r = 0; r < kRows; ++r) {
      set_value(targets_.tensor, 0, r, r % 5 == 4 ? -1 : static_cast<double>(r * 7 % kClasses));
    }
  }
  Var targets() { return tape_.constant(targets_.tensor); }

  static constexpr Index kRows = 11;
  static constexpr Index kWidth = 6;
  static constexpr Index kClasses = 9;
  Tape tape_;
  TestLeaf x_{{kRows, kWidth}, DType::f64, 1};
  TestLeaf weight_{{kClasses, kWidth}, DType::f64, 2};
  TestLeaf scale_{{kClasses}, DType::f64, 3};
  OwnedTensor targets_{{kRows}, DType::i32};
};

TEST_F(HeadLossTest, AnyNumberOfRowsGivesTheLossAndGradientOfTheParts) {
  const CrossEntropySpec spec{.z_loss = 0.1, .scale_mult = 3, .count_right = true};
  const CrossEntropyResult want = cross_entropy(
      linear(tape_.watch(x_), tape_.watch(weight_)), targets(), tape_.watch(scale_), spec);
  const double loss = value_at(want.loss.value(), 0, 0);
  const OwnedTensor tokens = test::copy_of(want.token_losses.value());
  const OwnedTensor right = test::copy_of(want.right.value());
  tape_.backward(want.loss);
  std::vector<OwnedTensor> grads;
  for (const TestLeaf* leaf : {&x_, &weight_, &scale_}) grads.push_back(test::copy_of(leaf->grad));

  for (const Index rows : {0, 1, 4, 11, 50}) {
    tape_.reset();
    for (TestLeaf* leaf : {&x_, &weight_, &scale_}) leaf->fresh = true;
    const CrossEntropyResult got = head_loss(tape_.watch(x_),
                                             tape_.watch(weight_),
                                             targets(),
                                             tape_.watch(scale_),
                                             {.loss = spec, .rows = rows});
    EXPECT_NEAR(value_at(got.loss.value(), 0, 0), loss, 1e-14 * loss) << rows;
    for (Index r = 0; r < kRows; ++r) {
      EXPECT_NEAR(value_at(got.token_losses.value(), 0, r), value_at(tokens.tensor, 0, r), 1e-13);
      EXPECT_EQ(value_at(got.right.value(), 0, r), value_at(right.tensor, 0, r)) << r;
    }
    tape_.backward(got.loss);
    std::size_t i = 0;
    for (const TestLeaf* leaf : {&x_, &weight_, &scale_}) {
      EXPECT_TRUE(test::matches(leaf->grad,
                                [&](Index r, Index c) { return value_at(grads[i].tensor, r, c); }))
          << rows << " rows, input " << i;
      ++i;
    }
  }
}

TEST_F(HeadLossTest, AnotherSeedScalesTheGradient) {
  OwnedTensor seed({1}, DType::f64);
  fill(seed.tensor, 2.5);
  const auto gradient = [&](bool seeded) {
    tape_.reset();
    x_.fresh = true;
    const Var loss = head_loss(tape_.watch(x_), tape_.constant(weight_.value), targets(), {}).loss;
    if (seeded) {
      tape_.backward({&loss, 1}, {&seed.tensor, 1}, {});
    } else {
      tape_.backward(loss);
    }
    return test::copy_of(x_.grad);
  };
  const OwnedTensor once = gradient(false);
  const OwnedTensor more = gradient(true);
  EXPECT_TRUE(test::matches(more.tensor,
                            [&](Index r, Index c) { return 2.5 * value_at(once.tensor, r, c); }));
}

TEST_F(HeadLossTest, FewRowsAtATimeTakeLessMemory) {
  const auto bytes = [&](Index rows) {
    Tape tape;
    head_loss(tape.constant(x_.value),
              tape.constant(weight_.value),
              tape.constant(targets_.tensor),
              {},
              {.loss = {}, .rows = rows});
    return tape.arena().touched();
  };
  EXPECT_LT(bytes(2) + 8 * kClasses * sizeof(double), bytes(kRows));
}

TEST(HeadLossPlan, HoldsAQuarterOfTheLogitsAndNoMoreThanTwoGibibytes) {
  const PlanningScope planning;
  const auto bytes = [](Index rows, Index classes) {
    const OwnedTensor x({rows, 8}, DType::f32);
    const OwnedTensor weight({classes, 8}, DType::f32);
    const OwnedTensor targets({rows}, DType::i32);
    Tape tape;
    head_loss(
        tape.constant(x.tensor), tape.constant(weight.tensor), tape.constant(targets.tensor), {});
    return static_cast<double>(tape.arena().touched());
  };
  const double quarter = 4096.0 * 50304 * 4;
  EXPECT_NEAR(bytes(16384, 50304), quarter, 0.005 * quarter);
  // Two GiB hold 10,672 rows; 65,536 are best shared as eight times 8192.
  EXPECT_NEAR(bytes(65536, 50304), 2 * quarter, 0.005 * quarter);
  const double all = 100.0 * 50304 * 4;  // too little to be worth cutting
  EXPECT_NEAR(bytes(100, 50304), all, 0.005 * all);
}

TEST_F(HeadLossTest, WrongInputsAreSentences) {
  EXPECT_TRUE(throws<ShapeError>(
      [&] { head_loss(tape_.watch(x_), tape_.watch(scale_), targets(), {}); }, {"head_loss"}));
  EXPECT_TRUE(throws<RequestError>(
      [&] { head_loss(tape_.watch(x_), tape_.watch(weight_), {}, {}); }, {"targets are missing"}));
  EXPECT_TRUE(throws<RequestError>(
      [&] { head_loss(tape_.watch(x_), tape_.watch(weight_), tape_.watch(x_), {}); },
      {"targets must be ids"}));
}

}  // namespace
}  // namespace norma
