#include "norma/ops/l2_norm.h"

#include <cmath>

#include <gtest/gtest.h>

#include "norma/ops/rms_norm.h"
#include "tests/support/expect.h"
#include "tests/support/run_op.h"

namespace norma::test {
namespace {

TEST(L2Norm, RowsGetLengthOne) {
  const OwnedTensor x = normals({5, 300}, DType::f32, 1, 7);
  const OwnedTensor y = run_op([&](Tape& tape) { return l2_norm(tape.constant(x.tensor), {}); });
  for (Index r = 0; r < 5; ++r) {
    double squares = 0;
    for (Index c = 0; c < 300; ++c) squares += std::pow(value_at(y.tensor, r, c), 2);
    EXPECT_NEAR(std::sqrt(squares), 1, 1e-6);
  }
}

TEST(L2Norm, IsRmsNormOverTheRootOfTheWidth) {
  const OwnedTensor x = normals({3, 49}, DType::f64, 2);
  const OwnedTensor l2 =
      run_op([&](Tape& tape) { return l2_norm(tape.constant(x.tensor), {}, {.eps = 0}); });
  const OwnedTensor rms =
      run_op([&](Tape& tape) { return rms_norm(tape.constant(x.tensor), {}, {.eps = 0}); });
  const OwnedTensor want = tabulated(
      {3, 49}, DType::f64, [&](Index r, Index c) { return value_at(rms.tensor, r, c) / 7; });
  EXPECT_TRUE(close(l2.tensor, want.tensor, 1e-14));
}

TEST(L2Norm, ZerosStayZerosWithAndWithoutEps) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const double eps : {0.0, 1e-12}) {
      OwnedTensor values = normals({3, 8}, dtype, 3);
      for (Index c = 0; c < 8; ++c) set_value(values.tensor, 1, c, 0);
      TestLeaf x(std::move(values));
      TestLeaf gain({8}, dtype, 4);
      const OwnedTensor seed = normals({3, 8}, dtype, 5);
      const OwnedTensor y =
          run_op([&](Tape& tape) { return l2_norm(tape.watch(x), tape.watch(gain), {.eps = eps}); },
                 seed.tensor);
      for (Index c = 0; c < 8; ++c) {
        EXPECT_EQ(value_at(y.tensor, 1, c), 0);
        EXPECT_EQ(value_at(x.grad, 1, c), 0);
        EXPECT_NE(value_at(x.grad, 0, c), 0);
        EXPECT_TRUE(std::isfinite(value_at(gain.grad, 0, c)));
      }
    }
  }
}

TEST(L2Norm, GradientIsOrthogonalToTheRow) {
  TestLeaf x({4, 64}, DType::f32, 6);
  const OwnedTensor seed = normals({4, 64}, DType::f32, 7);
  run_op([&](Tape& tape) { return l2_norm(tape.watch(x), {}); }, seed.tensor);
  for (Index r = 0; r < 4; ++r) {
    double along = 0;
    for (Index c = 0; c < 64; ++c) along += value_at(x.grad, r, c) * value_at(x.value, r, c);
    EXPECT_NEAR(along, 0, 1e-5);
  }
}

TEST(L2Norm, GainScaleMultipliesTheGainAndItsGradient) {
  const OwnedTensor x = normals({3, 12}, DType::f64, 8);
  TestLeaf stored({12}, DType::f64, 9);
  TestLeaf logical(tabulated(
      {12}, DType::f64, [&](Index, Index c) { return 5 * value_at(stored.value, 0, c); }));
  const OwnedTensor seed = normals({3, 12}, DType::f64, 10);
  const OwnedTensor got = run_op(
      [&](Tape& tape) {
        return l2_norm(tape.constant(x.tensor), tape.watch(stored), {.gain_scale = 5});
      },
      seed.tensor);
  const OwnedTensor want =
      run_op([&](Tape& tape) { return l2_norm(tape.constant(x.tensor), tape.watch(logical)); },
             seed.tensor);
  EXPECT_TRUE(close(got.tensor, want.tensor, 1e-14));
  for (Index c = 0; c < 12; ++c) {
    EXPECT_NEAR(value_at(stored.grad, 0, c), 5 * value_at(logical.grad, 0, c), 1e-12);
  }
}

TEST(L2Norm, HeadsMayShareOrOwnTheirGains) {
  const OwnedTensor x = normals({2, 12}, DType::f64, 11);
  TestLeaf shared({4}, DType::f64, 12);
  TestLeaf own(tabulated(
      {12}, DType::f64, [&](Index, Index c) { return value_at(shared.value, 0, c % 4); }));
  const OwnedTensor a = run_op([&](Tape& tape) {
    return l2_norm(tape.constant(x.tensor), tape.watch(shared), {.group = 4});
  });
  const OwnedTensor b = run_op([&](Tape& tape) {
    return l2_norm(tape.constant(x.tensor), tape.watch(own), {.group = 4, .gain_per_column = true});
  });
  EXPECT_TRUE(same_bits(a.tensor, b.tensor));
}

TEST(L2Norm, SaysWhatItWanted) {
  Tape tape;
  const OwnedTensor x = normals({2, 12}, DType::f32, 13);
  const OwnedTensor wrong = normals({5}, DType::f32, 14);
  const OwnedTensor other_type = normals({12}, DType::f64, 15);
  const Var v = tape.constant(x.tensor);
  EXPECT_TRUE(throws<RequestError>([&] { l2_norm(v, tape.constant(wrong.tensor)); },
                                   {"l2_norm", "gain", "(12)", "(5)"}));
  EXPECT_TRUE(throws<RequestError>([&] { l2_norm(v, tape.constant(other_type.tensor)); },
                                   {"l2_norm", "gain", "f32", "f64"}));
  EXPECT_TRUE(
      throws<RequestError>([&] { l2_norm(v, {}, {.group = 7}); }, {"l2_norm", "group", "12", "7"}));
}

}  // namespace
}  // namespace norma::test
