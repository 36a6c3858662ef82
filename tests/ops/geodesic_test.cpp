#include "norma/ops/geodesic.h"

#include <array>
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

constexpr std::array kRules = {GeodesicRule::lerp, GeodesicRule::slerp, GeodesicRule::riem};
constexpr double kTinyEps = 1e-30;  // invariances are exact only without eps

/// y for one alpha everywhere (scalar) or one per column.
OwnedTensor step(const Tensor& h, const Tensor& b, const Tensor& alpha, GeodesicSpec spec) {
  Tape tape;
  const Var y = geodesic(tape.constant(h), tape.constant(b), tape.constant(alpha), spec);
  return test::copy_of(y.value());
}

OwnedTensor step(const Tensor& h, const Tensor& b, double alpha, GeodesicRule rule) {
  const OwnedTensor a = numbers({1}, h.dtype, {alpha});
  return step(h, b, a.tensor, {.rule = rule, .eps = kTinyEps});
}

OwnedTensor unit(const Tensor& x) {
  OwnedTensor y = test::copy_of(x);
  for (Index r = 0; r < x.shape.rows(); ++r) {
    double sum = 0;
    for (Index c = 0; c < x.shape.cols(); ++c) sum += std::pow(value_at(x, r, c), 2);
    for (Index c = 0; c < x.shape.cols(); ++c) {
      set_value(y.tensor, r, c, value_at(x, r, c) / std::sqrt(sum));
    }
  }
  return y;
}

double angle(const Tensor& a, const Tensor& b) {
  return std::acos(dot(a, b) / std::sqrt(dot(a, a) * dot(b, b)));
}

TEST(Geodesic, NoStepStaysAndLerpAndSlerpReachTheBranch) {
  const OwnedTensor h = normals({3, 17}, DType::f64, 1);
  const OwnedTensor b = normals({3, 17}, DType::f64, 2);
  for (const GeodesicRule rule : kRules) {
    EXPECT_TRUE(close(step(h.tensor, b.tensor, 0, rule).tensor, unit(h.tensor).tensor, 1e-14));
  }
  for (const GeodesicRule rule : {GeodesicRule::lerp, GeodesicRule::slerp}) {
    EXPECT_TRUE(close(step(h.tensor, b.tensor, 1, rule).tensor, unit(b.tensor).tensor, 1e-14));
  }
}

TEST(Geodesic, ABranchAlongTheStreamChangesNothing) {
  const OwnedTensor h = normals({3, 17}, DType::f64, 1);
  OwnedTensor b = test::copy_of(h.tensor);
  scale(b.tensor, 7);
  for (const GeodesicRule rule : kRules) {
    EXPECT_TRUE(close(step(h.tensor, b.tensor, 0.3, rule).tensor, unit(h.tensor).tensor, 1e-14));
  }
}

TEST(Geodesic, ScalarAlphaTurnsByItsShareOfTheAngle) {
  const OwnedTensor h = normals({1, 9}, DType::f64, 1);
  const OwnedTensor b = normals({1, 9}, DType::f64, 2);
  const double theta = angle(h.tensor, b.tensor);
  EXPECT_NEAR(
      angle(h.tensor, step(h.tensor, b.tensor, 0.5, GeodesicRule::lerp).tensor), theta / 2, 1e-12);
  for (const double alpha : {0.1, 0.3, 0.5, 0.9}) {
    EXPECT_NEAR(angle(h.tensor, step(h.tensor, b.tensor, alpha, GeodesicRule::slerp).tensor),
                alpha * theta,
                1e-12);
    // lerp turns by arccos(((1−α) + α·cosθ)/√((1−α)² + α² + 2α(1−α)cosθ))
    const double rest = 1 - alpha;
    const double norm = std::sqrt(rest * rest + alpha * alpha + 2 * alpha * rest * std::cos(theta));
    EXPECT_NEAR(angle(h.tensor, step(h.tensor, b.tensor, alpha, GeodesicRule::lerp).tensor),
                std::acos((rest + alpha * std::cos(theta)) / norm),
                1e-12);
    // riem goes along the tangent of length sinθ.
    EXPECT_NEAR(angle(h.tensor, step(h.tensor, b.tensor, alpha, GeodesicRule::riem).tensor),
                std::atan(alpha * std::sin(theta)),
                1e-12);
  }
}

TEST(Geodesic, LerpAndSlerpAgreeAtSmallAnglesToThirdOrder) {
  const OwnedTensor h = normals({1, 9}, DType::f64, 1);
  const OwnedTensor away = normals({1, 9}, DType::f64, 2);
  double former = 0;
  for (const double size : {1e-1, 1e-2}) {
    OwnedTensor b = test::copy_of(h.tensor);
    add_scaled(away.tensor, size, b.tensor);
    OwnedTensor gap = step(h.tensor, b.tensor, 0.2, GeodesicRule::lerp);
    add_scaled(step(h.tensor, b.tensor, 0.2, GeodesicRule::slerp).tensor, -1, gap.tensor);
    const double distance = std::sqrt(dot(gap.tensor, gap.tensor));
    if (former > 0) {
      EXPECT_NEAR(former / distance, 1000, 200);
    }
    former = distance;
  }
}

TEST(Geodesic, VectorAlphaLeavesThePlaneOfStreamAndBranch) {
  const OwnedTensor h = unit(normals({1, 9}, DType::f64, 1).tensor);
  const OwnedTensor b = unit(normals({1, 9}, DType::f64, 2).tensor);
  OwnedTensor alpha = normals({9}, DType::f64, 3, 0.2);
  OwnedTensor y = step(h.tensor, b.tensor, alpha.tensor, {.eps = kTinyEps});
  // Take out what lies in span{h, b}.
  OwnedTensor other = test::copy_of(b.tensor);
  add_scaled(h.tensor, -dot(h.tensor, b.tensor), other.tensor);
  other = unit(other.tensor);
  add_scaled(h.tensor, -dot(h.tensor, y.tensor), y.tensor);
  add_scaled(other.tensor, -dot(other.tensor, y.tensor), y.tensor);
  EXPECT_GT(std::sqrt(dot(y.tensor, y.tensor)), 1e-2);
}

TEST(Geodesic, ResultsHaveUnitLengthInF32) {
  const OwnedTensor h = normals({64, 257}, DType::f32, 1, 3);
  const OwnedTensor b = normals({64, 257}, DType::f32, 2, 0.01);
  const OwnedTensor alpha = normals({257}, DType::f32, 3, 0.1);
  for (const GeodesicRule rule : kRules) {
    const OwnedTensor y = step(h.tensor, b.tensor, alpha.tensor, {.rule = rule});
    for (Index r = 0; r < 64; ++r) {
      double sum = 0;
      for (Index c = 0; c < 257; ++c) sum += std::pow(value_at(y.tensor, r, c), 2);
      EXPECT_NEAR(std::sqrt(sum), 1, 1e-6);
    }
  }
}

struct Grads {
  OwnedTensor y, dh, db, dalpha;
};
Grads grads(
    const Tensor& h, const Tensor& b, const Tensor& alpha, const Tensor& dy, GeodesicSpec spec) {
  TestLeaf lh(test::copy_of(h));
  TestLeaf lb(test::copy_of(b));
  TestLeaf la(test::copy_of(alpha));
  Tape tape;
  const Var y = geodesic(tape.watch(lh), tape.watch(lb), tape.watch(la), spec);
  Grads out;
  out.y = test::copy_of(y.value());
  tape.backward({&y, 1}, {&dy, 1}, {});
  out.dh = test::copy_of(lh.grad);
  out.db = test::copy_of(lb.grad);
  out.dalpha = test::copy_of(la.grad);
  return out;
}

TEST(Geodesic, ZeroRowsGiveZeroGradientsAndNoNan) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const GeodesicRule rule : kRules) {
      // Rows: both vectors there, h zero, b zero, both zero.
      const OwnedTensor h = numbers({4, 2}, dtype, {3, 4, 0, 0, 3, 4, 0, 0});
      const OwnedTensor b = numbers({4, 2}, dtype, {0, 2, 0, 2, 0, 0, 0, 0});
      const OwnedTensor alpha = numbers({2}, dtype, {0.25, 0.25});
      const OwnedTensor dy = normals({4, 2}, dtype, 5);
      const Grads g = grads(h.tensor, b.tensor, alpha.tensor, dy.tensor, {.rule = rule});
      EXPECT_TRUE(all_finite(g.y.tensor) && all_finite(g.dh.tensor) && all_finite(g.db.tensor) &&
                  all_finite(g.dalpha.tensor));
      for (Index c = 0; c < 2; ++c) {
        EXPECT_EQ(value_at(g.dh.tensor, 1, c), 0);
        EXPECT_EQ(value_at(g.db.tensor, 2, c), 0);
        EXPECT_EQ(value_at(g.y.tensor, 3, c), 0);
        EXPECT_EQ(value_at(g.dh.tensor, 3, c) + value_at(g.db.tensor, 3, c), 0);
      }
      // With one of them zero the step keeps to the line of the other.
      EXPECT_NEAR(value_at(g.y.tensor, 1, 1), 1, 1e-6);
      EXPECT_NEAR(value_at(g.y.tensor, 2, 0), 0.6, 1e-6);
    }
  }
}

TEST(Geodesic, ParallelAndOppositeRowsFollowTheLimits) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const OwnedTensor h = numbers({3, 2}, dtype, {3, 4, 3, 4, 3, 4});
    const OwnedTensor b = numbers({3, 2}, dtype, {6, 8, -6, -8, 6, 8.000001});
    const OwnedTensor alpha = numbers({2}, dtype, {0.2, 0.4});
    const OwnedTensor dy = normals({3, 2}, dtype, 5);
    const Grads slerp =
        grads(h.tensor, b.tensor, alpha.tensor, dy.tensor, {.rule = GeodesicRule::slerp});
    const Grads lerp = grads(h.tensor, b.tensor, alpha.tensor, dy.tensor, {});
    EXPECT_TRUE(close(slerp.y.tensor, lerp.y.tensor, 1e-6));
    EXPECT_TRUE(close(slerp.dh.tensor, lerp.dh.tensor, 1e-6));
    EXPECT_TRUE(close(slerp.db.tensor, lerp.db.tensor, 1e-6));
  }
}

TEST(Geodesic, OneColumnIsASignAndHasNoGradient) {
  const OwnedTensor h = numbers({2, 1}, DType::f64, {3, -5});
  const OwnedTensor b = numbers({2, 1}, DType::f64, {2, 2});
  const OwnedTensor alpha = numbers({1}, DType::f64, {0.2});
  const OwnedTensor dy = numbers({2, 1}, DType::f64, {1, 1});
  for (const GeodesicRule rule : kRules) {
    const Grads g =
        grads(h.tensor, b.tensor, alpha.tensor, dy.tensor, {.rule = rule, .eps = kTinyEps});
    EXPECT_NEAR(value_at(g.y.tensor, 0, 0), 1, 1e-15);
    EXPECT_NEAR(value_at(g.y.tensor, 1, 0), -1, 1e-15);
    EXPECT_NEAR(dot(g.dh.tensor, g.dh.tensor) + dot(g.db.tensor, g.db.tensor), 0, 1e-28);
    EXPECT_NEAR(value_at(g.dalpha.tensor, 0, 0), 0, 1e-14);
  }
}

TEST(Geodesic, GradientsAreOrthogonalToTheirInputs) {
  const OwnedTensor h = normals({1, 40}, DType::f64, 1);
  const OwnedTensor b = normals({1, 40}, DType::f64, 2);
  const OwnedTensor alpha = normals({40}, DType::f64, 3, 0.1);
  const OwnedTensor dy = normals({1, 40}, DType::f64, 4);
  for (const GeodesicRule rule : kRules) {
    const GeodesicSpec spec{.rule = rule, .eps = kTinyEps};
    const Grads g = grads(h.tensor, b.tensor, alpha.tensor, dy.tensor, spec);
    EXPECT_NEAR(dot(h.tensor, g.dh.tensor), 0, 1e-13);
    EXPECT_NEAR(dot(b.tensor, g.db.tensor), 0, 1e-13);
    // Ten times the stream: the same result, a tenth of the gradient.
    OwnedTensor larger = test::copy_of(h.tensor);
    scale(larger.tensor, 10);
    Grads far = grads(larger.tensor, b.tensor, alpha.tensor, dy.tensor, spec);
    scale(far.dh.tensor, 10);
    EXPECT_TRUE(close(far.y.tensor, g.y.tensor, 1e-13));
    EXPECT_TRUE(close(far.dh.tensor, g.dh.tensor, 1e-12));
  }
}

TEST(Geodesic, AlphaIsUsedByItsSizeWithSlopePlusOneAtZero) {
  const OwnedTensor h = normals({2, 3}, DType::f64, 1);
  const OwnedTensor b = normals({2, 3}, DType::f64, 2);
  const OwnedTensor dy = normals({2, 3}, DType::f64, 3);
  const GeodesicSpec spec{.alpha_mult = 0.5};
  const auto with = [&](double alpha) {
    const OwnedTensor a = numbers({1}, DType::f64, {alpha});
    return grads(h.tensor, b.tensor, a.tensor, dy.tensor, spec);
  };
  const Grads plus = with(0.4);
  const Grads minus = with(-0.4);
  EXPECT_TRUE(test::same_bits(plus.y.tensor, minus.y.tensor));
  EXPECT_EQ(value_at(plus.dalpha.tensor, 0, 0), -value_at(minus.dalpha.tensor, 0, 0));
  const double at_zero = value_at(with(0).dalpha.tensor, 0, 0);
  EXPECT_NEAR(at_zero, value_at(with(1e-9).dalpha.tensor, 0, 0), 1e-7);
  EXPECT_NE(at_zero, 0);
}

TEST(Geodesic, TheStoredAlphaHasItsOwnLearningRate) {
  // alpha_init 0.05 stored as 1/√d: the value is 0.05 and the gradient carries the factor 0.05·√d.
  const double d = 16;
  const OwnedTensor h = normals({2, 16}, DType::f64, 1);
  const OwnedTensor b = normals({2, 16}, DType::f64, 2);
  const OwnedTensor dy = normals({2, 16}, DType::f64, 3);
  const OwnedTensor stored = numbers({1}, DType::f64, {1 / std::sqrt(d)});
  const OwnedTensor plain = numbers({1}, DType::f64, {0.05});
  const Grads scaled =
      grads(h.tensor, b.tensor, stored.tensor, dy.tensor, {.alpha_mult = 0.05 * std::sqrt(d)});
  const Grads direct = grads(h.tensor, b.tensor, plain.tensor, dy.tensor, {});
  EXPECT_TRUE(close(scaled.y.tensor, direct.y.tensor, 1e-14));
  EXPECT_NEAR(value_at(scaled.dalpha.tensor, 0, 0),
              0.05 * std::sqrt(d) * value_at(direct.dalpha.tensor, 0, 0),
              1e-13);
}

TEST(Geodesic, BadInputsAreNamed) {
  const OwnedTensor h = normals({2, 3}, DType::f32, 1);
  const OwnedTensor wide = normals({2, 4}, DType::f32, 1);
  const OwnedTensor f64 = normals({2, 3}, DType::f64, 1);
  const OwnedTensor alpha = normals({3}, DType::f32, 1);
  const OwnedTensor two = normals({2}, DType::f32, 1);
  const OwnedTensor ids({2, 3}, DType::i32);
  Tape tape;
  const auto call = [&](const Tensor& x, const Tensor& b, const Tensor& a) {
    return [&tape, x, b, a] {
      geodesic(tape.constant(x), tape.constant(b), tape.constant(a), {.rule = GeodesicRule::slerp});
    };
  };
  EXPECT_TRUE(throws<RequestError>(call(h.tensor, wide.tensor, alpha.tensor),
                                   {"slerp", "b", "(2, 3)", "(2, 4)"}));
  EXPECT_TRUE(
      throws<RequestError>(call(h.tensor, f64.tensor, alpha.tensor), {"slerp", "b", "f32", "f64"}));
  EXPECT_TRUE(
      throws<RequestError>(call(h.tensor, h.tensor, two.tensor), {"slerp", "alpha", "(3)", "(2)"}));
  EXPECT_TRUE(
      throws<RequestError>(call(ids.tensor, h.tensor, alpha.tensor), {"slerp", "h", "i32"}));
  EXPECT_TRUE(
      throws<RequestError>([&] { geodesic(tape.constant(h.tensor), tape.constant(h.tensor), {}); },
                           {"lerp", "alpha", "missing"}));
}

}  // namespace
}  // namespace norma
