#include "norma/ops/dyt.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/support/expect.h"
#include "tests/support/run_op.h"

namespace norma::test {
namespace {

TEST(Dyt, KnownValues) {
  const OwnedTensor x = numbers({1, 3}, DType::f64, {-2, 0, 1});
  TestLeaf a(numbers({1}, DType::f64, {0.5}));
  TestLeaf gain(numbers({3}, DType::f64, {2, 3, 4}));
  TestLeaf bias(numbers({3}, DType::f64, {0.1, 0.2, 0.3}));
  const OwnedTensor y = run_op([&](Tape& tape) {
    return dyt(tape.constant(x.tensor), tape.watch(a), tape.watch(gain), tape.watch(bias));
  });
  const OwnedTensor want =
      numbers({1, 3}, DType::f64, {2 * std::tanh(-1.0) + 0.1, 0.2, 4 * std::tanh(0.5) + 0.3});
  EXPECT_TRUE(close(y.tensor, want.tensor, 1e-15));
}

TEST(Dyt, IsOddBoundedAndLinearForSmallInputs) {
  TestLeaf a(numbers({1}, DType::f32, {0.5}));
  const OwnedTensor x = normals({2, 64}, DType::f32, 1, 20);
  const OwnedTensor minus =
      tabulated({2, 64}, DType::f32, [&](Index r, Index c) { return -value_at(x.tensor, r, c); });
  const OwnedTensor small = normals({2, 64}, DType::f32, 2, 1e-4);
  const auto of = [&](const Tensor& t) {
    return run_op([&](Tape& tape) { return dyt(tape.constant(t), tape.watch(a), {}, {}); });
  };
  const OwnedTensor y = of(x.tensor);
  const OwnedTensor y_minus = of(minus.tensor);
  const OwnedTensor y_small = of(small.tensor);
  for_each_place({2, 64}, [&](Index r, Index c) {
    EXPECT_LE(std::abs(value_at(y.tensor, r, c)), 1);
    EXPECT_EQ(value_at(y.tensor, r, c), -value_at(y_minus.tensor, r, c));
    EXPECT_NEAR(value_at(y_small.tensor, r, c), 0.5 * value_at(small.tensor, r, c), 1e-10);
  });
}

TEST(Dyt, SaturatedValuesHaveNoGradient) {
  TestLeaf x(numbers({1, 4}, DType::f32, {1e4, -1e4, 1e30, -1e30}));
  TestLeaf a(numbers({1}, DType::f32, {0.5}));
  const OwnedTensor seed = normals({1, 4}, DType::f32, 3);
  const OwnedTensor y =
      run_op([&](Tape& tape) { return dyt(tape.watch(x), tape.watch(a), {}, {}); }, seed.tensor);
  for (Index c = 0; c < 4; ++c) {
    EXPECT_EQ(value_at(y.tensor, 0, c), c % 2 == 0 ? 1 : -1);
    EXPECT_EQ(value_at(x.grad, 0, c), 0);
  }
  EXPECT_EQ(value_at(a.grad, 0, 0), 0);
}

TEST(Derf, KnownValuesWithAndWithoutShift) {
  const OwnedTensor x = numbers({1, 2}, DType::f64, {-1, 3});
  TestLeaf a(numbers({1}, DType::f64, {0.5}));
  TestLeaf s(numbers({1}, DType::f64, {0.25}));
  const auto of = [&](bool shifted) {
    return run_op([&](Tape& tape) {
      return derf(tape.constant(x.tensor), tape.watch(a), shifted ? tape.watch(s) : Var{}, {}, {});
    });
  };
  const OwnedTensor plain = numbers({1, 2}, DType::f64, {std::erf(-0.5), std::erf(1.5)});
  const OwnedTensor shifted = numbers({1, 2}, DType::f64, {std::erf(-0.25), std::erf(1.75)});
  EXPECT_TRUE(close(of(false).tensor, plain.tensor, 1e-15));
  EXPECT_TRUE(close(of(true).tensor, shifted.tensor, 1e-15));
}

TEST(Derf, SaturatedValuesHaveNoGradient) {
  TestLeaf x(numbers({1, 2}, DType::f32, {1e4, -1e30}));
  TestLeaf a(numbers({1}, DType::f32, {0.5}));
  const OwnedTensor seed = normals({1, 2}, DType::f32, 4);
  const OwnedTensor y = run_op(
      [&](Tape& tape) { return derf(tape.watch(x), tape.watch(a), {}, {}, {}); }, seed.tensor);
  EXPECT_EQ(value_at(y.tensor, 0, 0), 1);
  EXPECT_EQ(value_at(y.tensor, 0, 1), -1);
  EXPECT_EQ(value_at(x.grad, 0, 0), 0);
  EXPECT_EQ(value_at(x.grad, 0, 1), 0);
}

TEST(Dyt, SaysWhatItWanted) {
  Tape tape;
  const OwnedTensor x = normals({2, 6}, DType::f32, 5);
  const OwnedTensor one = normals({1}, DType::f32, 6);
  const OwnedTensor five = normals({5}, DType::f32, 7);
  const OwnedTensor f64 = normals({6}, DType::f64, 8);
  const Var v = tape.constant(x.tensor);
  const Var a = tape.constant(one.tensor);
  const Var wrong = tape.constant(five.tensor);
  EXPECT_TRUE(throws<RequestError>([&] { dyt(v, wrong, {}, {}); }, {"dyt", "a ", "(1)", "(5)"}));
  EXPECT_TRUE(throws<RequestError>([&] { dyt(v, {}, {}, {}); }, {"dyt", "a is missing"}));
  EXPECT_TRUE(throws<RequestError>([&] { dyt(v, a, wrong, {}); }, {"dyt", "gain", "(6)", "(5)"}));
  EXPECT_TRUE(throws<RequestError>([&] { dyt(v, a, {}, wrong); }, {"dyt", "bias", "(6)", "(5)"}));
  EXPECT_TRUE(throws<RequestError>([&] { dyt(v, a, tape.constant(f64.tensor), {}); },
                                   {"dyt", "gain", "f32", "f64"}));
  EXPECT_TRUE(
      throws<RequestError>([&] { derf(v, a, wrong, {}, {}); }, {"derf", "s ", "(1)", "(5)"}));
}

}  // namespace
}  // namespace norma::test
