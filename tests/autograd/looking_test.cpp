// Trace mode, the fault hook and the profile.
#include <cmath>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "norma/autograd/recompute.h"
#include "norma/ops/linear.h"
#include "norma/ops/rms_norm.h"
#include "norma/tensor/plain.h"
#include "tests/support/expect.h"
#include "tests/support/toy_ops.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::reciprocal;
using test::scaled;
using test::TestLeaf;
using test::throws;

class TraceTest : public testing::Test {
 protected:
  TraceTest() { tape_.set_trace(true); }
  Tape tape_;
  TestLeaf x_{{2, 3}, DType::f64, 1};
};

TEST_F(TraceTest, NamesTheFirstOpItsPlaceAndTheStepInForward) {
  set_value(x_.value, 1, 2, 0);
  tape_.reset(17);
  const Var x = tape_.watch(x_);
  const Tape::Label block(tape_, "block 3");
  scaled(x, 2);
  const Tape::Label mlp(tape_, "mlp");
  EXPECT_TRUE(
      throws<NonFiniteError>([&] { scaled(reciprocal(x), 2); },
                             {"value", "reciprocal in block 3 / mlp", "step 17", "forward"}));
}

TEST_F(TraceTest, NamesTheFirstOpItsPlaceAndTheStepInBackward) {
  set_value(x_.value, 1, 2, 1e-200);  // 1/x is finite, its slope is not
  tape_.reset(5);
  Var y = tape_.watch(x_);
  {
    const Tape::Label block(tape_, "block 0");
    y = scaled(y, 1);
    const Tape::Label norm(tape_, "norm");
    y = reciprocal(y);
  }
  const OwnedTensor seed = test::normals({2, 3}, DType::f64, 3);
  EXPECT_TRUE(throws<NonFiniteError>(
      [&] {
        tape_.backward({&y, 1}, {&seed.tensor, 1}, {});
      },
      {"gradient", "reciprocal in block 0 / norm", "step 5", "backward, input 0"}));
}

TEST_F(TraceTest, LooksIntoRecomputedBlocks) {
  tape_.reset(2);
  const Tape::Label block(tape_, "block 1");
  const auto bad = [](std::span<const Var> in) { return scaled(reciprocal(in[0]), 2); };
  const Var x = tape_.watch(x_);
  set_value(x_.value, 0, 0, 0);
  EXPECT_TRUE(throws<NonFiniteError>([&] { recompute(tape_, {x}, bad); },
                                     {"reciprocal in block 1", "step 2", "forward"}));
}

TEST_F(TraceTest, NamesThePlaceOfARecomputedBlockInBackward) {
  tape_.reset(2);
  set_value(x_.value, 0, 0, 1e-200);
  Var y;
  {
    const Tape::Label block(tape_, "block 1");
    y = recompute(tape_, {tape_.watch(x_)}, [](std::span<const Var> in) {
      const Tape::Label norm(in[0].tape(), "norm");
      return reciprocal(in[0]);
    });
  }
  const OwnedTensor seed = test::normals({2, 3}, DType::f64, 3);
  EXPECT_TRUE(throws<NonFiniteError>(
      [&] {
        tape_.backward({&y, 1}, {&seed.tensor, 1}, {});
      },
      {"reciprocal in block 1 / norm", "step 2", "backward"}));
}

TEST_F(TraceTest, IsSilentWhenAllIsFiniteAndWhenItIsOff) {
  const auto step = [&] {
    tape_.reset();
    tape_.backward(test::half_square(reciprocal(tape_.watch(x_))));
  };
  EXPECT_NO_THROW(step());
  set_value(x_.value, 0, 0, 0);
  EXPECT_THROW(step(), NonFiniteError);
  tape_.set_trace(false);
  EXPECT_NO_THROW(step());
}

/// One step of W·rms(x)·gain and its three gradients.
struct Step {
  TestLeaf x{{4, 6}, DType::f64, 1};
  TestLeaf gain{{6}, DType::f64, 2};
  TestLeaf weight{{5, 6}, DType::f64, 3};
  OwnedTensor along = test::normals({4, 5}, DType::f64, 4);
  Tape tape;

  void run() {
    tape.reset();
    const Var h = rms_norm(tape.watch(x), tape.watch(gain));
    const Var y = linear(h, tape.watch(weight));
    tape.backward(test::project(y, along.tensor));
  }
};

TEST(FaultHook, ScalesExactlyOneGradient) {
  Step sound;
  sound.run();
  const auto expect = [&](const char* op, int input, double x, double gain, double weight) {
    SCOPED_TRACE(std::string(op) + " " + std::to_string(input));
    Step faulty;
    faulty.tape.set_fault({.op = op, .input = input, .factor = 1.01});
    faulty.run();
    EXPECT_EQ(faulty.tape.faults_planted(), x * gain * weight == 1 ? 0 : 1);
    scale(faulty.x.grad, 1 / x);
    scale(faulty.gain.grad, 1 / gain);
    scale(faulty.weight.grad, 1 / weight);
    EXPECT_TRUE(test::close(faulty.x.grad, sound.x.grad, 1e-14));
    EXPECT_TRUE(test::close(faulty.gain.grad, sound.gain.grad, 1e-14));
    EXPECT_TRUE(test::close(faulty.weight.grad, sound.weight.grad, 1e-14));
  };
  expect("rms_norm", 0, 1.01, 1, 1);
  expect("rms_norm", 1, 1, 1.01, 1);
  expect("linear", 1, 1, 1, 1.01);
  expect("linear", 0, 1.01, 1.01, 1);  // what flows back through it is scaled with it
  expect("another_op", 0, 1, 1, 1);
  expect("linear", 7, 1, 1, 1);  // no such input
}

TEST(FaultHook, AddsToWhatIsThereAlready) {
  Tape tape;
  TestLeaf x({2, 3}, DType::f64, 1);
  const OwnedTensor seed = test::normals({2, 3}, DType::f64, 2);
  tape.set_fault({.op = "scaled", .input = 0, .factor = 1.5});
  const Var a = reciprocal(tape.watch(x));
  const Var y = test::plus(scaled(a, 2), a);
  tape.keep_grad(a);
  tape.backward({&y, 1}, {&seed.tensor, 1}, {});
  const auto want = [&](Index r, Index c) { return 4 * value_at(seed.tensor, r, c); };
  EXPECT_TRUE(test::matches(tape.grad(a), want));
}

TEST(FaultHook, ReachesGradientsThatAreHandedThrough) {
  Tape tape;
  TestLeaf a({2, 3}, DType::f64, 1);
  TestLeaf b({2, 3}, DType::f64, 2);
  const OwnedTensor seed = test::normals({2, 3}, DType::f64, 3);
  tape.set_fault({.op = "plus", .input = 1, .factor = 1.25});
  const Var y = test::plus(scaled(tape.watch(a), 2), scaled(tape.watch(b), 2));
  tape.backward({&y, 1}, {&seed.tensor, 1}, {});
  const auto d = [&](Index r, Index c) { return value_at(seed.tensor, r, c); };
  EXPECT_TRUE(test::matches(a.grad, [&](Index r, Index c) { return 2 * d(r, c); }));
  EXPECT_TRUE(test::matches(b.grad, [&](Index r, Index c) { return 2.5 * d(r, c); }));
}

TEST(Profile, CountsCallsAndTimeOfEveryOp) {
  Step step;
  Profile profile;
  step.tape.set_profile(&profile);
  for (int i = 0; i < 3; ++i) step.run();
  step.tape.set_profile(nullptr);
  step.run();
  std::map<std::string_view, Profile::Row> rows;
  for (const Profile::Row& row : profile.rows()) rows[row.op] = row;
  ASSERT_EQ(rows.size(), 3U);
  for (const char* op : {"rms_norm", "linear", "project"}) {
    EXPECT_EQ(rows[op].calls, 3) << op;
    EXPECT_GT(rows[op].forward_s, 0) << op;
    EXPECT_GT(rows[op].backward_s, 0) << op;
    EXPECT_LT(rows[op].forward_s + rows[op].backward_s, 10) << op;
  }
}

}  // namespace
}  // namespace norma
