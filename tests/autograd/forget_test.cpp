// Values that no later op reads: given back at once, or made again where a rule needs them.
#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
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

}  // namespace
}  // namespace norma
