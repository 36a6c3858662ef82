#include "norma/ops/softcap.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/base/error.h"
#include "tests/support/expect.h"
#include "tests/support/values.h"

namespace norma {
namespace {

double capped(double x, double cap, DType dtype) {
  const OwnedTensor in = test::numbers({1, 1}, dtype, {x});
  Tape tape;
  return value_at(softcap(tape.constant(in.tensor), {.cap = cap}).value(), 0, 0);
}

// spec §7, 8: |y| < C, monotone, y ≈ x − x³/(3C²).
TEST(Softcap, BoundedOddAndMonotone) {
  double former = -5;
  for (double x = -20; x <= 20; x += 0.5) {
    const double y = capped(x, 5, DType::f64);
    EXPECT_LT(std::abs(y), 5);
    EXPECT_GT(y, former);
    EXPECT_DOUBLE_EQ(y, -capped(-x, 5, DType::f64));
    former = y;
  }
}

TEST(Softcap, NearlyTheIdentityForSmallX) {
  for (const double x : {0.01, 0.1, 0.3}) {
    EXPECT_NEAR(capped(x, 30, DType::f64), x - x * x * x / (3 * 30 * 30), 1e-8);
  }
  EXPECT_EQ(capped(0, 30, DType::f32), 0);
}

TEST(Softcap, FarOutItIsTheCapAndFlat) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    EXPECT_EQ(capped(1e30, 30, dtype), 30);
    EXPECT_EQ(capped(-1e30, 30, dtype), -30);
    test::TestLeaf x(test::numbers({1, 1}, dtype, {1e30}));
    Tape tape;
    tape.backward(softcap(tape.watch(x)));
    EXPECT_EQ(value_at(x.grad, 0, 0), 0);
  }
}

TEST(Softcap, BadInput) {
  const OwnedTensor x = test::normals({2, 2}, DType::f32, 1);
  const OwnedTensor ids = test::numbers({2}, DType::i32, {1, 2});
  Tape tape;
  const Var v = tape.constant(x.tensor);
  EXPECT_TRUE(
      test::throws<RequestError>([&] { softcap(v, {.cap = 0}); }, {"softcap", "positive", "0"}));
  EXPECT_TRUE(test::throws<RequestError>(
      [&] { softcap(v, {.cap = std::numeric_limits<double>::infinity()}); }, {"softcap", "inf"}));
  EXPECT_TRUE(test::throws<RequestError>([&] { softcap(tape.constant(ids.tensor)); },
                                         {"softcap", "x", "i32"}));
}

}  // namespace
}  // namespace norma
