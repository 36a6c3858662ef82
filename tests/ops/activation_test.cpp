#include "norma/ops/activation.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/base/error.h"
#include "tests/support/expect.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::TestLeaf;
using test::throws;

double value_of(Activation kind, double x, DType dtype = DType::f64) {
  const OwnedTensor in = test::numbers({1, 1}, dtype, {x});
  Tape tape;
  return value_at(activation(tape.constant(in.tensor), kind).value(), 0, 0);
}

double slope_of(Activation kind, double x, DType dtype = DType::f64) {
  TestLeaf leaf(test::numbers({1, 1}, dtype, {x}));
  Tape tape;
  tape.backward(activation(tape.watch(leaf), kind));
  return value_at(leaf.grad, 0, 0);
}

TEST(Activation, KnownValues) {
  EXPECT_NEAR(value_of(Activation::gelu_erf, 1), 0.8413447460685429, 1e-15);
  EXPECT_NEAR(value_of(Activation::gelu_tanh, 1), 0.8411919906082768, 1e-15);
  EXPECT_NEAR(value_of(Activation::silu, 1), 0.7310585786300049, 1e-15);
  EXPECT_EQ(value_of(Activation::relu, -3), 0);
  EXPECT_EQ(value_of(Activation::relu, 3), 3);
  EXPECT_EQ(value_of(Activation::relu2, 3), 9);
  EXPECT_EQ(value_of(Activation::relu2, -3), 0);
}

TEST(Activation, SlopesAtZero) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    EXPECT_EQ(slope_of(Activation::gelu_erf, 0, dtype), 0.5);
    EXPECT_EQ(slope_of(Activation::gelu_tanh, 0, dtype), 0.5);
    EXPECT_EQ(slope_of(Activation::silu, 0, dtype), 0.5);
    EXPECT_EQ(slope_of(Activation::relu, 0, dtype), 0);
    EXPECT_EQ(slope_of(Activation::relu2, 0, dtype), 0);
  }
}

// x² and x³ overflow here; values and slopes must not.
TEST(Activation, FarOutTheyAreLinearOrZero) {
  for (const Activation kind :
       {Activation::gelu_erf, Activation::gelu_tanh, Activation::relu, Activation::silu}) {
    EXPECT_EQ(value_of(kind, 1e30, DType::f32), static_cast<double>(1e30f)) << name_of(kind);
    EXPECT_EQ(value_of(kind, -1e30, DType::f32), 0) << name_of(kind);
    EXPECT_EQ(slope_of(kind, 1e30, DType::f32), 1) << name_of(kind);
    EXPECT_EQ(slope_of(kind, -1e30, DType::f32), 0) << name_of(kind);
  }
}

TEST(Activation, NanStaysNan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Activation kind : {Activation::gelu_erf,
                                Activation::gelu_tanh,
                                Activation::relu,
                                Activation::relu2,
                                Activation::silu}) {
    EXPECT_TRUE(std::isnan(value_of(kind, nan, DType::f32))) << name_of(kind);
    EXPECT_TRUE(std::isnan(value_of(kind, nan, DType::f64))) << name_of(kind);
  }
}

// spec §7, 18: with relu a scale in front is a scale behind; with gelu and silu it is not.
TEST(Activation, OnlyReluIsHomogeneous) {
  EXPECT_EQ(value_of(Activation::relu, 6), 2 * value_of(Activation::relu, 3));
  EXPECT_EQ(value_of(Activation::relu2, 6), 4 * value_of(Activation::relu2, 3));
  EXPECT_GT(std::abs(value_of(Activation::silu, 2) - 2 * value_of(Activation::silu, 1)), 0.1);
  EXPECT_GT(std::abs(value_of(Activation::gelu_erf, 2) - 2 * value_of(Activation::gelu_erf, 1)),
            0.1);
}

TEST(Activation, RowsDoNotDependOnTheBatch) {
  const OwnedTensor rows = test::normals({5, 37}, DType::f32, 3);
  const Tensor third(rows.tensor.as<float>() + 2 * 37, {1, 37}, DType::f32);
  Tape tape;
  const Var all = activation(tape.constant(rows.tensor), Activation::gelu_erf);
  const Var one = activation(tape.constant(third), Activation::gelu_erf);
  const Tensor row(all.value().as<float>() + 2 * 37, {1, 37}, DType::f32);
  EXPECT_TRUE(test::same_bits(one.value(), row));
}

TEST(Activation, RefusesIds) {
  const OwnedTensor ids = test::numbers({2, 2}, DType::i32, {1, 2, 3, 4});
  Tape tape;
  EXPECT_TRUE(throws<RequestError>([&] { activation(tape.constant(ids.tensor), Activation::silu); },
                                   {"silu", "i32", "(2, 2)"}));
  EXPECT_TRUE(throws<RequestError>([&] { activation({}, Activation::relu); }, {"relu", "missing"}));
}

}  // namespace
}  // namespace norma
