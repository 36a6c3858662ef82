// Values that no later op reads: given back at once, or made again where a rule needs them.
#include <array>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "norma/autograd/backward.h"
#include "norma/autograd/recompute.h"
#include "norma/base/error.h"
#include "norma/ops/activation.h"
#include "norma/ops/linear.h"
#include "norma/ops/rms_norm.h"
#include "norma/tensor/plain.h"
#include "tests/support/expect.h"
#include "tests/support/toy_ops.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::same_bits;
using test::scaled;
using test::TestLeaf;

class ForgetTest : public testing::Test {
 protected:
  ForgetTest() { tape_.set_remaking(Remaking::norms); }

  /// x -> linear -> activation -> norm -> linear, where what lies between is forgotten or not: the
  /// memory that forward took.
  std::size_t chain(bool forget) {
    Tape tape;
    tape.set_remaking(Remaking::norms);
    for (TestLeaf* leaf : {&x_, &in_, &gain_, &out_}) leaf->fresh = true;
    const Var h = linear(tape.watch(x_), tape.watch(in_), {});
    const Var a = activation(h, Activation::gelu_erf);
    const Var n = rms_norm(a, tape.watch(gain_));
    if (forget) tape.forget(a);
    const Var y = linear(n, tape.watch(out_), {});
    if (forget) tape.forget(n);
    const std::size_t touched = tape.arena().touched();
    tape.backward({&y, 1}, {&seed_.tensor, 1}, {});
    return touched;
  }

  Tape tape_;
  TestLeaf x_{{5, 6}, DType::f64, 1};
  TestLeaf in_{{8, 6}, DType::f64, 2};
  TestLeaf gain_{{8}, DType::f64, 3};
  TestLeaf out_{{8, 8}, DType::f64, 4};
  OwnedTensor seed_ = test::normals({5, 8}, DType::f64, 5);
};

TEST_F(ForgetTest, AChainIsMadeAgainWithTheSameBits) {
  const std::size_t kept = chain(false);
  std::vector<OwnedTensor> grads;
  for (const TestLeaf* leaf : {&x_, &in_, &gain_, &out_}) {
    grads.push_back(test::copy_of(leaf->grad));
  }
  EXPECT_LT(chain(true), kept);
  std::size_t i = 0;
  for (const TestLeaf* leaf : {&x_, &in_, &gain_, &out_}) {
    EXPECT_TRUE(same_bits(leaf->grad, grads[i].tensor)) << i;
    ++i;
  }
}

TEST_F(ForgetTest, WithoutRemakingWhatARuleReadsStays) {
  tape_.set_remaking(Remaking::nothing);
  const Var a = activation(tape_.watch(x_), Activation::relu);
  const Var y = linear(a, tape_.watch(in_), {});
  tape_.forget(a);
  EXPECT_NO_THROW(a.value());
  tape_.forget(y);
  EXPECT_THROW(y.value(), Error) << "no rule reads it";
}

TEST_F(ForgetTest, NormsStayWhereOnlyActivationsAreMadeAgain) {
  tape_.set_remaking(Remaking::activations);
  const Var h = linear(tape_.watch(x_), tape_.watch(in_), {});
  const Var a = activation(h, Activation::gelu_erf);
  const Var n = rms_norm(h, tape_.watch(gain_));
  for (const Var v : {a, n}) linear(v, tape_.watch(out_), {});
  tape_.forget(a);
  tape_.forget(n);
  EXPECT_THROW(a.value(), Error);
  EXPECT_NO_THROW(n.value());
}

TEST_F(ForgetTest, WhatOthersLookAtStays) {
  const Var a = scaled(tape_.watch(x_), 2);
  const Var cut = a.detach();
  tape_.forget(a);
  tape_.forget(cut);
  EXPECT_NO_THROW(cut.value());
  const Var kept = scaled(tape_.watch(x_), 3);
  tape_.keep_value(kept);
  tape_.forget(kept);
  EXPECT_NO_THROW(kept.value());
  const Var outside = tape_.constant(seed_.tensor);
  tape_.forget(outside);
  EXPECT_NO_THROW(outside.value());
}

/// Twice x, cheap to do again; counts who does it, and what its rule found done before.
struct Twice {
  bool rule_makes_it = true;
  int by_rule = 0;
  int by_tape = 0;

  Var of(Var x) {
    Tape& tape = x.tape();
    const Var y = tape.output(x.shape(), x.dtype());
    const auto fill = [x](const Tensor& to) {
      test::for_each_place(
          to.shape, [&](Index r, Index c) { set_value(to, r, c, 2 * value_at(x.value(), r, c)); });
    };
    fill(y.value());
    tape.pin(x);
    const auto rule = [=, this](Backward& b) {
      const Tensor dy = b.grad(y);
      const Backward::Target dx = b.into(x);
      test::for_each_place(
          dy.shape, [&](Index r, Index c) { set_value(dx.grad, r, c, 2 * value_at(dy, r, c)); });
      if (const Tensor again = b.wanted_again(); again && rule_makes_it) {
        ++by_rule;
        fill(again);
        b.made_again();
      }
    };
    tape.record_cheap(Remaking::norms, "twice", {x}, {y}, rule, [=, this] {
      ++by_tape;
      fill(y.value());
    });
    return y;
  }
};

class RestTest : public ForgetTest {
 protected:
  /// Gradients of x -> twice -> a linear map (and a second one), where twice is forgotten or not.
  std::vector<OwnedTensor> gradients(Twice& twice, bool forget, bool second, bool in_block) {
    for (TestLeaf* leaf : {&x_, &in_, &other_}) leaf->fresh = true;
    Tape tape;
    tape.set_remaking(Remaking::norms);
    const auto block = [&, forget, second](std::span<const Var> inputs) {
      const Var n = twice.of(inputs[0]);
      Var y = linear(n, tape.watch(in_), {});
      if (second) y = test::plus(y, linear(n, tape.watch(other_), {}));
      if (forget) tape.forget(n);
      return test::scaled(y, 3);
    };
    const std::array inputs{tape.watch(x_)};
    const Var y = in_block ? recompute(tape, {inputs[0]}, block) : block(inputs);
    tape.backward({&y, 1}, {&seed_.tensor, 1}, {});
    EXPECT_EQ(tape.arena().in_use(), y.value().bytes()) << "all else was given back";
    std::vector<OwnedTensor> grads;
    for (const TestLeaf* leaf : {&x_, &in_}) grads.push_back(test::copy_of(leaf->grad));
    if (second) grads.push_back(test::copy_of(other_.grad));
    return grads;
  }
  void expect_same(Twice& twice, bool second, bool in_block) {
    Twice kept;
    const std::vector<OwnedTensor> want = gradients(kept, false, second, in_block);
    EXPECT_EQ(kept.by_rule + kept.by_tape, 0);
    const std::vector<OwnedTensor> got = gradients(twice, true, second, in_block);
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(same_bits(got[i].tensor, want[i].tensor)) << i;
    }
  }
  TestLeaf other_{{8, 6}, DType::f64, 6};
};

TEST_F(RestTest, AWeightWaitsForTheRuleThatMakesItsInputAgain) {
  for (const bool in_block : {false, true}) {
    for (const bool second : {false, true}) {
      Twice twice;
      expect_same(twice, second, in_block);
      EXPECT_EQ(twice.by_rule, 1) << "for both maps";
      EXPECT_EQ(twice.by_tape, 0);
    }
  }
}

TEST_F(RestTest, TheTapeMakesItAgainWhereTheRuleDoesNot) {
  for (const bool in_block : {false, true}) {
    Twice twice{.rule_makes_it = false};
    expect_same(twice, true, in_block);
    EXPECT_EQ(twice.by_rule, 0);
    EXPECT_EQ(twice.by_tape, 1);
  }
}

TEST_F(RestTest, NobodyWaitsForARuleThatWillNotRun) {
  x_.needs_grad = false;  // twice has no rule then and is not forgotten
  Twice twice;
  const Var n = twice.of(tape_.watch(x_));
  const Var y = linear(n, tape_.watch(in_), {});
  tape_.forget(n);
  tape_.backward({&y, 1}, {&seed_.tensor, 1}, {});
  EXPECT_EQ(twice.by_rule + twice.by_tape, 0);
  EXPECT_FALSE(in_.fresh);
}

TEST_F(RestTest, AWeightThatIsMadeAfterItsInputDoesNotWait) {
  std::vector<OwnedTensor> grads;
  for (const bool forget : {false, true}) {
    in_.fresh = true;
    Twice twice;
    Tape tape;
    tape.set_remaking(Remaking::norms);
    const Var n = twice.of(tape.watch(x_));
    const Var y = linear(n, test::scaled(tape.watch(in_), 2), {});
    if (forget) tape.forget(n);
    tape.backward({&y, 1}, {&seed_.tensor, 1}, {});
    EXPECT_FALSE(in_.fresh);
    EXPECT_EQ(twice.by_tape, forget ? 1 : 0);
    grads.push_back(test::copy_of(in_.grad));
  }
  EXPECT_TRUE(same_bits(grads[0].tensor, grads[1].tensor));
}

TEST_F(RestTest, AFaultIsPlantedInWhatWaits) {
  Twice twice;
  const std::vector<OwnedTensor> right = gradients(twice, true, false, false);
  for (TestLeaf* leaf : {&x_, &in_}) leaf->fresh = true;
  tape_.set_fault({.op = "linear", .input = 1, .factor = 2});
  const Var n = twice.of(tape_.watch(x_));
  const Var y = test::scaled(linear(n, tape_.watch(in_), {}), 3);
  tape_.forget(n);
  tape_.backward({&y, 1}, {&seed_.tensor, 1}, {});
  EXPECT_EQ(tape_.faults_planted(), 1);
  scale(right[1].tensor, 2);
  EXPECT_TRUE(same_bits(in_.grad, right[1].tensor));
  EXPECT_TRUE(same_bits(x_.grad, right[0].tensor));
}

}  // namespace
}  // namespace norma
