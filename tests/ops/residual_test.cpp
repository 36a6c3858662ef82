#include "norma/ops/residual.h"

#include <cmath>

#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/base/error.h"
#include "tests/support/expect.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::TestLeaf;
using test::throws;

struct Sides {
  OwnedTensor x = test::normals({3, 8}, DType::f64, 1);
  OwnedTensor b = test::normals({3, 8}, DType::f64, 2);
};

OwnedTensor vector_of(double value, DType dtype = DType::f64) {
  return test::numbers({8}, dtype, {value, value, value, value, value, value, value, value});
}

double alpha_gradient(double alpha_raw, double mult, DType dtype) {
  TestLeaf x(test::numbers({1, 1}, dtype, {2}));
  TestLeaf b(test::numbers({1, 1}, dtype, {5}));
  TestLeaf alpha(test::numbers({1}, dtype, {alpha_raw}));
  Tape tape;
  tape.backward(alerp(tape.watch(x), tape.watch(b), tape.watch(alpha), {.mult = mult}));
  return value_at(alpha.grad, 0, 0);
}

TEST(ResidualAdd, ScaleOneIsThePlainSum) {
  const OwnedTensor x = test::numbers({1, 2}, DType::f32, {1, 2});
  const OwnedTensor b = test::numbers({1, 2}, DType::f32, {10, 20});
  Tape tape;
  const Var vx = tape.constant(x.tensor);
  const Var vb = tape.constant(b.tensor);
  EXPECT_EQ(value_at(residual_add(vx, vb).value(), 0, 1), 22);
  EXPECT_EQ(value_at(residual_add(vx, vb, {.scale = 3}).value(), 0, 1), 26);
}

TEST(ResidualRscale, OnesAreThePlainSum) {
  const Sides s;
  const OwnedTensor ones = vector_of(1);
  Tape tape;
  const Var x = tape.constant(s.x.tensor);
  const Var b = tape.constant(s.b.tensor);
  const Var y = residual_rscale(x, b, tape.constant(ones.tensor));
  const Var sum = residual_add(x, b);
  EXPECT_TRUE(test::same_bits(y.value(), sum.value()));
}

TEST(Alerp, EndsAreTheSides) {
  const Sides s;
  const OwnedTensor zero = vector_of(0);
  const OwnedTensor one = vector_of(1);
  Tape tape;
  const Var x = tape.constant(s.x.tensor);
  const Var b = tape.constant(s.b.tensor);
  EXPECT_TRUE(test::same_bits(alerp(x, b, tape.constant(zero.tensor)).value(), s.x.tensor));
  EXPECT_TRUE(test::close(alerp(x, b, tape.constant(one.tensor)).value(), s.b.tensor, 1e-15));
}

// ν makes the squares of the two weights sum to 1: at α = ½ both are √½.
TEST(Alerp, HalfWayBothWeighRootHalf) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const OwnedTensor x = test::numbers({1, 1}, dtype, {2});
    const OwnedTensor b = test::numbers({1, 1}, dtype, {6});
    const OwnedTensor half = test::numbers({1}, dtype, {0.5});
    Tape tape;
    const Var y =
        alerp(tape.constant(x.tensor), tape.constant(b.tensor), tape.constant(half.tensor));
    EXPECT_NEAR(value_at(y.value(), 0, 0), 8 * std::sqrt(0.5), 1e-6);
  }
}

TEST(Alerp, SignOfAlphaDoesNotMatter) {
  const Sides s;
  const OwnedTensor plus = vector_of(0.3);
  const OwnedTensor minus = vector_of(-0.3);
  Tape tape;
  const Var x = tape.constant(s.x.tensor);
  const Var b = tape.constant(s.b.tensor);
  const Var y = alerp(x, b, tape.constant(plus.tensor), {.mult = 2});
  const Var other = alerp(x, b, tape.constant(minus.tensor), {.mult = 2});
  EXPECT_TRUE(test::same_bits(y.value(), other.value()));
}

TEST(Alerp, ScalarEqualsConstantVector) {
  const Sides s;
  const OwnedTensor vector = vector_of(0.3);
  const OwnedTensor scalar = test::numbers({1}, DType::f64, {0.3});
  Tape tape;
  const Var x = tape.constant(s.x.tensor);
  const Var b = tape.constant(s.b.tensor);
  const Var by_column = alerp(x, b, tape.constant(vector.tensor));
  const Var by_one = alerp(x, b, tape.constant(scalar.tensor));
  EXPECT_TRUE(test::same_bits(by_column.value(), by_one.value()));
}

// spec §1.8: the slope of |·| at 0 counts as +1. There ν' = 1, so dy/dα = x + (b − x) = b.
TEST(Alerp, SubGradientAtZero) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    EXPECT_DOUBLE_EQ(alpha_gradient(0, 1, dtype), 5);
    EXPECT_DOUBLE_EQ(alpha_gradient(0, 2, dtype), 10);
    EXPECT_DOUBLE_EQ(alpha_gradient(-1e-20, 2, dtype), -10);
  }
}

TEST(Residual, BadInput) {
  const Sides s;
  const OwnedTensor narrow = test::normals({3, 7}, DType::f64, 3);
  const OwnedTensor seven = test::normals({7}, DType::f64, 4);
  const OwnedTensor other = vector_of(1, DType::f32);
  Tape tape;
  const Var x = tape.constant(s.x.tensor);
  const Var b = tape.constant(s.b.tensor);
  const Var bad = tape.constant(narrow.tensor);
  const Var short_vector = tape.constant(seven.tensor);
  EXPECT_TRUE(throws<RequestError>([&] { residual_add(x, bad); },
                                   {"residual_add", "b", "(3, 8)", "(3, 7)"}));
  EXPECT_TRUE(throws<RequestError>([&] { residual_rscale(x, b, short_vector); },
                                   {"residual_rscale", "lambda", "(8)", "(7)"}));
  EXPECT_TRUE(throws<RequestError>([&] { residual_rscale(x, b, tape.constant(other.tensor)); },
                                   {"residual_rscale", "lambda", "f64", "f32"}));
  EXPECT_TRUE(throws<RequestError>([&] { alerp(x, b, short_vector); },
                                   {"alerp", "alpha_raw", "(8)", "(7)"}));
  EXPECT_TRUE(throws<RequestError>([&] { alerp(x, {}, short_vector); }, {"alerp", "missing"}));
}

}  // namespace
}  // namespace norma
