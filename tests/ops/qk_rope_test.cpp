#include "norma/ops/qk_rope.h"

#include <cmath>

#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/base/error.h"
#include "norma/tensor/plain.h"
#include "tests/support/expect.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::close;
using test::dot;
using test::normals;
using test::numbers;
using test::TestLeaf;
using test::throws;

constexpr Index kHead = 8;

OwnedTensor prepared(const Tensor& x, const Tensor& gain, const RopeTable& table, QkRopeSpec spec) {
  Tape tape;
  const Var g = gain ? tape.constant(gain) : Var{};
  return test::copy_of(qk_rope(tape.constant(x), g, table, spec).value());
}

TEST(QkRope, HeadsHaveUnitLengthOrUnitMeanSquare) {
  const RopeTable table({.head = kHead}, 5, DType::f64);
  const OwnedTensor x = normals({2, 5, 3 * kHead}, DType::f64, 1, 4);
  const OwnedTensor unit = prepared(x.tensor, {}, table, {.l2_eps = 1e-30});
  const OwnedTensor rms =
      prepared(x.tensor, {}, table, {.norm = HeadNorm::rms, .after_rope = false, .rms_eps = 1e-30});
  for (Index r = 0; r < 10; ++r) {
    for (Index h = 0; h < 3; ++h) {
      double sum = 0;
      for (Index c = h * kHead; c < (h + 1) * kHead; ++c)
        sum += std::pow(value_at(unit.tensor, r, c), 2);
      EXPECT_NEAR(sum, 1, 1e-13);
    }
  }
  // rms without gain = √D · l2, in either order of norm and rotation.
  OwnedTensor longer = test::copy_of(unit.tensor);
  scale(longer.tensor, std::sqrt(static_cast<double>(kHead)));
  EXPECT_TRUE(close(rms.tensor, longer.tensor, 1e-13));
}

TEST(QkRope, NormAndRotationCommuteButAGainDoesNot) {
  const RopeTable table({.head = kHead}, 5, DType::f64);
  const OwnedTensor x = normals({1, 5, kHead}, DType::f64, 1);
  const OwnedTensor gain = normals({kHead}, DType::f64, 2);
  OwnedTensor tied({kHead}, DType::f64);
  for (Index c = 0; c < kHead; ++c) set_value(tied.tensor, 0, c, value_at(gain.tensor, 0, c / 2));
  const auto both = [&](const Tensor& g) {
    return std::pair{prepared(x.tensor, g, table, {}),
                     prepared(x.tensor, g, table, {.after_rope = false})};
  };
  const auto [after, before] = both({});
  EXPECT_TRUE(close(after.tensor, before.tensor, 1e-13));
  const auto [after_tied, before_tied] = both(tied.tensor);
  EXPECT_TRUE(close(after_tied.tensor, before_tied.tensor, 1e-13));
  const auto [after_free, before_free] = both(gain.tensor);
  EXPECT_FALSE(close(after_free.tensor, before_free.tensor, 1e-2));
}

TEST(QkRope, ScoresDependOnDistanceOnlyIfGainsAreTiedWithinPairs) {
  const RopeTable table({.head = kHead}, 32, DType::f64);
  const OwnedTensor q = normals({1, 1, kHead}, DType::f64, 1);
  const OwnedTensor k = normals({1, 1, kHead}, DType::f64, 2);
  const OwnedTensor gain = normals({kHead}, DType::f64, 3);
  OwnedTensor tied({kHead}, DType::f64);
  for (Index c = 0; c < kHead; ++c) set_value(tied.tensor, 0, c, value_at(gain.tensor, 0, c / 2));
  const auto score = [&](const Tensor& g, Index p, Index s) {
    return dot(prepared(q.tensor, g, table, {.offset = p}).tensor,
               prepared(k.tensor, g, table, {.offset = s}).tensor);
  };
  EXPECT_NEAR(score({}, 2, 7), score({}, 12, 17), 1e-13);
  EXPECT_NEAR(score(tied.tensor, 2, 7), score(tied.tensor, 12, 17), 1e-13);
  EXPECT_GT(std::abs(score(gain.tensor, 2, 7) - score(gain.tensor, 12, 17)), 1e-3);
}

TEST(QkRope, RmsLogitsOverRootDAreUnitLogitsTimesRootD) {
  const RopeTable table({.head = kHead}, 4, DType::f64);
  const OwnedTensor q = normals({1, 1, kHead}, DType::f64, 1);
  const OwnedTensor k = normals({1, 1, kHead}, DType::f64, 2);
  const auto score = [&](QkRopeSpec spec) {
    return dot(prepared(q.tensor, {}, table, spec).tensor,
               prepared(k.tensor, {}, table, spec).tensor);
  };
  const double root = std::sqrt(static_cast<double>(kHead));
  EXPECT_NEAR(score({.norm = HeadNorm::rms, .after_rope = false, .rms_eps = 1e-30}) / root,
              score({.l2_eps = 1e-30}) * root,
              1e-13);
}

TEST(QkRope, TheScaleOfOneHeadChangesNothingElse) {
  const RopeTable table({.head = kHead}, 3, DType::f64);
  const OwnedTensor x = normals({1, 3, 2 * kHead}, DType::f64, 1);
  OwnedTensor scaled = test::copy_of(x.tensor);
  scale(scaled.tensor.columns(kHead, kHead), 5);
  const QkRopeSpec spec{.l2_eps = 1e-30};
  EXPECT_TRUE(close(prepared(scaled.tensor, {}, table, spec).tensor,
                    prepared(x.tensor, {}, table, spec).tensor,
                    1e-13));
  EXPECT_FALSE(close(prepared(scaled.tensor, {}, table, {.norm = HeadNorm::none}).tensor,
                     prepared(x.tensor, {}, table, {.norm = HeadNorm::none}).tensor,
                     1e-2));
}

TEST(QkRope, ZeroHeadsGiveZeroAndPassNoGradient) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const RopeTable table({.head = 2}, 2, dtype);
    TestLeaf x(numbers({1, 2, 4}, dtype, {0, 0, 3, 4, 0, 0, 0, 0}));
    TestLeaf gain(numbers({4}, dtype, {1, 2, 3, 4}));
    const OwnedTensor dy = normals({1, 2, 4}, dtype, 1);
    Tape tape;
    const Var y = qk_rope(tape.watch(x), tape.watch(gain), table, {});
    for (const Index c : {0, 1}) EXPECT_EQ(value_at(y.value(), 0, c), 0);
    tape.backward({&y, 1}, {&dy.tensor, 1}, {});
    for (const Index c : {0, 1}) EXPECT_EQ(value_at(x.grad, 0, c), 0);
    for (Index c = 0; c < 4; ++c) EXPECT_EQ(value_at(x.grad, 1, c), 0);
    EXPECT_TRUE(all_finite(x.grad) && all_finite(gain.grad));
    EXPECT_EQ(value_at(gain.grad, 0, 0), 0);
  }
}

TEST(QkRope, BadInputsAreNamed) {
  const RopeTable table({.head = kHead}, 4, DType::f32);
  const OwnedTensor x = normals({2, 4, 2 * kHead}, DType::f32, 1);
  const OwnedTensor gain = normals({kHead}, DType::f32, 2);
  const OwnedTensor f64 = normals({2 * kHead}, DType::f64, 2);
  Tape tape;
  const auto call = [&](const Tensor& g, QkRopeSpec spec) {
    return [&tape, &table, &x, g, spec] {
      qk_rope(tape.constant(x.tensor), tape.constant(g), table, spec);
    };
  };
  EXPECT_TRUE(throws<RequestError>(call(gain.tensor, {}), {"qk_rope", "gain", "(16)", "(8)"}));
  EXPECT_TRUE(throws<RequestError>(call(f64.tensor, {}), {"qk_rope", "gain", "f32", "f64"}));
  EXPECT_TRUE(throws<RequestError>(call(gain.tensor, {.gain_per_column = false, .offset = 3}),
                                   {"qk_rope", "3 to 6", "0 to 3"}));
}

}  // namespace
}  // namespace norma
