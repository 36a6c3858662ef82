#include "norma/ops/scale_norm.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/support/expect.h"
#include "tests/support/run_op.h"

namespace norma::test {
namespace {

TEST(ScaleNorm, RowsGetLengthGainTimesRootOfTheWidth) {
  const OwnedTensor x = normals({3, 16}, DType::f64, 1, 5);
  TestLeaf g(numbers({1}, DType::f64, {1.5}));
  const OwnedTensor y = run_op(
      [&](Tape& tape) { return scale_norm(tape.constant(x.tensor), tape.watch(g), {.eps = 0}); });
  for (Index r = 0; r < 3; ++r) {
    double squares = 0;
    for (Index c = 0; c < 16; ++c) squares += std::pow(value_at(y.tensor, r, c), 2);
    EXPECT_NEAR(std::sqrt(squares), 6, 1e-12);
  }
}

TEST(ScaleNorm, GradientOfTheGainIsTheSumOverEverything) {
  const OwnedTensor x = normals({3, 16}, DType::f64, 2);
  TestLeaf g(numbers({1}, DType::f64, {2}));
  const OwnedTensor seed = normals({3, 16}, DType::f64, 3);
  const OwnedTensor y = run_op(
      [&](Tape& tape) { return scale_norm(tape.constant(x.tensor), tape.watch(g)); }, seed.tensor);
  EXPECT_NEAR(value_at(g.grad, 0, 0), dot(y.tensor, seed.tensor) / 2, 1e-12);
}

TEST(ScaleNorm, ZerosStayZeros) {
  TestLeaf x(OwnedTensor(Shape{2, 4}, DType::f32));
  const OwnedTensor seed = normals({2, 4}, DType::f32, 4);
  const OwnedTensor y =
      run_op([&](Tape& tape) { return scale_norm(tape.watch(x), {}, {.eps = 0}); }, seed.tensor);
  for_each_place({2, 4}, [&](Index r, Index c) {
    EXPECT_EQ(value_at(y.tensor, r, c), 0);
    EXPECT_EQ(value_at(x.grad, r, c), 0);
  });
}

TEST(ScaleNorm, SaysWhatItWanted) {
  Tape tape;
  const OwnedTensor x = normals({2, 4}, DType::f32, 5);
  const OwnedTensor wrong = normals({4}, DType::f32, 6);
  EXPECT_TRUE(throws<RequestError>(
      [&] { scale_norm(tape.constant(x.tensor), tape.constant(wrong.tensor)); },
      {"scale_norm", "gain", "(1)", "(4)"}));
  EXPECT_TRUE(throws<RequestError>([&] { scale_norm({}, {}); }, {"scale_norm", "missing"}));
}

}  // namespace
}  // namespace norma::test
