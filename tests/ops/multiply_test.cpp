#include "norma/ops/multiply.h"

#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/base/error.h"
#include "tests/support/expect.h"
#include "tests/support/values.h"

namespace norma {
namespace {

TEST(Multiply, SquareHasTwiceTheGradient) {
  test::TestLeaf x(test::numbers({1, 1}, DType::f32, {3}));
  Tape tape;
  const Var v = tape.watch(x);
  const Var y = multiply(v, v);
  EXPECT_EQ(value_at(y.value(), 0, 0), 9);
  tape.backward(y);
  EXPECT_EQ(value_at(x.grad, 0, 0), 6);
}

TEST(Multiply, BadInput) {
  const OwnedTensor a = test::normals({2, 4}, DType::f32, 1);
  const OwnedTensor b = test::normals({2, 3}, DType::f32, 2);
  const OwnedTensor c = test::normals({2, 4}, DType::f64, 3);
  Tape tape;
  const Var x = tape.constant(a.tensor);
  EXPECT_TRUE(test::throws<RequestError>([&] { multiply(x, tape.constant(b.tensor)); },
                                         {"multiply", "b", "(2, 4)", "(2, 3)"}));
  EXPECT_TRUE(test::throws<RequestError>([&] { multiply(x, tape.constant(c.tensor)); },
                                         {"multiply", "b", "f32", "f64"}));
  EXPECT_TRUE(test::throws<RequestError>([&] { multiply(x, {}); }, {"multiply", "b", "missing"}));
}

}  // namespace
}  // namespace norma
