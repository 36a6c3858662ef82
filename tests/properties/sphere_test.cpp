// Properties 22, 23, 24 and 26: steps on the sphere and the scales of nGPT.
#include <cmath>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "norma/ops/geodesic.h"
#include "norma/optim/optimizer.h"
#include "norma/tensor/plain.h"
#include "tests/properties/tiny_gpt.h"
#include "tests/support/expect.h"
#include "tests/support/run_op.h"

namespace norma::test {
namespace {

constexpr GeodesicRule kRules[] = {GeodesicRule::lerp, GeodesicRule::slerp, GeodesicRule::riem};

OwnedTensor unit(const Tensor& x) {
  OwnedTensor y = copy_of(x);
  for (Index r = 0; r < x.shape.rows(); ++r) {
    double squares = 0;
    for (Index c = 0; c < x.shape.cols(); ++c) squares += std::pow(value_at(x, r, c), 2);
    for (Index c = 0; c < x.shape.cols(); ++c) {
      set_value(y.tensor, r, c, value_at(x, r, c) / std::sqrt(squares));
    }
  }
  return y;
}

OwnedTensor step(const Tensor& h, const Tensor& b, const Tensor& alpha, GeodesicRule rule) {
  return run_op([&](Tape& tape) {
    return geodesic(tape.constant(h),
                    tape.constant(b),
                    tape.constant(alpha),
                    {.rule = rule, .eps = h.dtype == DType::f64 ? 1e-30 : 1e-12});
  });
}

OwnedTensor step(const Tensor& h, const Tensor& b, double alpha, GeodesicRule rule) {
  const OwnedTensor scalar = numbers({1}, h.dtype, {alpha});
  return step(h, b, scalar.tensor, rule);
}

/// By both chords, which keeps its digits at small angles.
double angle(const Tensor& a, const Tensor& b) {
  OwnedTensor apart = unit(a);
  OwnedTensor together = unit(a);
  add_scaled(unit(b).tensor, -1, apart.tensor);
  add(unit(b).tensor, together.tensor);
  return 2 * std::atan2(norm(apart.tensor), norm(together.tensor));
}

TEST(Property, P22_NoStepStaysAFullStepArrivesAndAParallelBranchIsAFixedPoint) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const double limit = dtype == DType::f64 ? 1e-10 : 2e-6;
    const OwnedTensor h = normals({5, 33}, dtype, 1, 2);
    const OwnedTensor b = normals({5, 33}, dtype, 2, 3);
    const OwnedTensor vector = normals({33}, dtype, 3);
    OwnedTensor along = copy_of(h.tensor);
    scale(along.tensor, 7);
    for (const GeodesicRule rule : kRules) {
      const OwnedTensor from = unit(h.tensor);
      EXPECT_LE(distance(step(h.tensor, b.tensor, 0, rule).tensor, from.tensor), limit);
      EXPECT_LE(distance(step(h.tensor, along.tensor, 0.3, rule).tensor, from.tensor), limit);
      EXPECT_LE(distance(step(h.tensor, along.tensor, vector.tensor, rule).tensor, from.tensor),
                limit);
      EXPECT_GT(distance(step(h.tensor, b.tensor, 0.05, rule).tensor, from.tensor), 1e-2);
    }
    for (const GeodesicRule rule : {GeodesicRule::lerp, GeodesicRule::slerp}) {
      EXPECT_LE(distance(step(h.tensor, b.tensor, 1, rule).tensor, unit(b.tensor).tensor), limit);
    }
  }
}

TEST(Property, P22_BlocksWithoutStepAreTheIdentityOnTheSphere) {
  for (const char* base : {"ngpt", "ngpt-slerp", "ngpt-riemann", "ngpt-inner"}) {
    TinyGpt at(say("base = \"", base, "\""));
    EXPECT_EQ(at.scale_all("attn_residual.alpha", 0), 2);
    EXPECT_EQ(at.scale_all("ffn_residual.alpha", 0), 2);
    for (const OwnedTensor& stream : at.streams()) {
      EXPECT_TRUE(matches(
          stream.tensor,
          [&](Index r, Index c) {
            const std::int32_t id =
                at.ids.tensor.elements<std::int32_t>()[static_cast<std::size_t>(r)];
            return value_at(at.value("embed.tokens"), id, c);
          },
          1e-10));
    }
  }
}

TEST(Property, P23_LerpHalvesTheAngleAndSlerpTakesItsShare) {
  for (std::uint64_t stream = 0; stream < 5; ++stream) {
    const OwnedTensor h = normals({1, 9}, DType::f64, 10 + stream);
    const OwnedTensor b = normals({1, 9}, DType::f64, 20 + stream);
    const double theta = angle(h.tensor, b.tensor);
    const auto turn = [&](double alpha, GeodesicRule rule) {
      return angle(h.tensor, step(h.tensor, b.tensor, alpha, rule).tensor);
    };
    EXPECT_NEAR(turn(0.5, GeodesicRule::lerp), theta / 2, 1e-10);
    for (const double alpha : {0.05, 0.25, 0.5, 0.8}) {
      EXPECT_NEAR(turn(alpha, GeodesicRule::slerp), alpha * theta, 1e-10);
    }
    EXPECT_GT(std::abs(turn(0.2, GeodesicRule::lerp) - 0.2 * theta), 1e-3)
        << "lerp turns by α·θ only at 0, ½ and 1";
  }
}

TEST(Property, P23_LerpAndSlerpPartWithTheThirdPowerOfASmallAngle) {
  const OwnedTensor h = unit(normals({1, 9}, DType::f64, 1).tensor);
  OwnedTensor away = normals({1, 9}, DType::f64, 2);
  add_scaled(h.tensor, -dot(h.tensor, away.tensor), away.tensor);
  away = unit(away.tensor);
  for (const double alpha : {0.1, 0.2, 0.7}) {
    for (const double theta : {0.1, 0.02}) {
      OwnedTensor b = copy_of(h.tensor);
      scale(b.tensor, std::cos(theta));
      add_scaled(away.tensor, std::sin(theta), b.tensor);
      OwnedTensor gap = step(h.tensor, b.tensor, alpha, GeodesicRule::lerp);
      add_scaled(step(h.tensor, b.tensor, alpha, GeodesicRule::slerp).tensor, -1, gap.tensor);
      // φ − αθ = −α(1−α)(1−2α)·θ³/6 + O(θ⁵), from the closed form of φ.
      const double third = std::abs(alpha * (1 - alpha) * (1 - 2 * alpha)) * std::pow(theta, 3) / 6;
      EXPECT_NEAR(norm(gap.tensor), third, 0.02 * third) << alpha << " " << theta;
      EXPECT_LE(norm(gap.tensor), alpha * std::pow(theta, 3));
    }
  }
}

/// |what of y lies outside span{a, b}|
double outside(const Tensor& y, const Tensor& a, const Tensor& b) {
  OwnedTensor rest = copy_of(y);
  const OwnedTensor first = unit(a);
  OwnedTensor second = copy_of(b);
  add_scaled(first.tensor, -dot(first.tensor, b), second.tensor);
  second = unit(second.tensor);
  for (const Tensor& axis : {first.tensor, second.tensor}) {
    add_scaled(axis, -dot(axis, rest.tensor), rest.tensor);
  }
  return norm(rest.tensor);
}

TEST(Property, P23_AVectorOfStepsLeavesThePlane) {
  const OwnedTensor h = normals({1, 17}, DType::f64, 1);
  const OwnedTensor b = normals({1, 17}, DType::f64, 2);
  const OwnedTensor alpha = normals({17}, DType::f64, 3, 0.2);
  for (const GeodesicRule rule : kRules) {
    EXPECT_GT(outside(step(h.tensor, b.tensor, alpha.tensor, rule).tensor, h.tensor, b.tensor),
              1e-2);
    EXPECT_LE(outside(step(h.tensor, b.tensor, 0.2, rule).tensor, h.tensor, b.tensor), 1e-10);
  }
}

/// What the model uses at the start, seen from outside: the same logits as with constants.
TEST(Property, P24_AtTheStartTheScalesAreWhatTheyAreSaidToBe) {
  const std::string constants =
      "base = \"ngpt\"\n"
      "q = { norm = \"l2\", scope = \"per_head\" }\n"
      "k = { norm = \"l2\", scope = \"per_head\" }\n"
      "logits = \"none\"\n"
      "residual.alpha = \"fixed\"\n"
      "scales.s_u = \"none\"\nscales.s_v = \"none\"\n";
  for (const Index width : {32, 48, 64}) {
    const TinyGptSpec spec{.model = say("width = ", width), .at_start = true};
    TinyGpt learned("base = \"ngpt\"", spec);
    TinyGpt fixed(constants + "residual.alpha_init = 0.05\n", spec);
    TinyGpt larger(constants + "residual.alpha_init = 0.0505\n", spec);
    EXPECT_LE(distance(learned.logits().tensor, fixed.logits().tensor), 1e-10) << width;
    EXPECT_GT(distance(learned.logits().tensor, larger.logits().tensor), 1e-5) << width;
  }
}

TEST(Property, P24_AnAdamStepMovesScalesByTheirPrivateLearningRate) {
  constexpr double kLr = 1e-3;
  for (const Index width : {32, 64}) {
    TinyGpt at("base = \"ngpt\"", {.model = say("width = ", width), .at_start = true});
    const double root = std::sqrt(static_cast<double>(width));
    struct Expected {
      const char* ending;
      double start;  // s_init
      double move;   // s_init/s_scale
    };
    const Expected all[] = {{"residual.alpha", 0.05, 0.05 * root},
                            {".q.gain", 1, root},
                            {"ffn.s_u", 1, 1},
                            {"ffn.s_v", 1, 1},
                            {"logits.gain", 1, root}};
    Optimizer optimizer(at.params(), {.name = OptimName::adamw, .weight_decay = 0, .eps = 1e-30});
    fill(at.params().grads(), 1);
    const OwnedTensor before = copy_of(at.params().values());
    optimizer.step(at.params(), {.lr = kLr});
    int found = 0;
    for (const Param& param : at.params().params()) {
      for (const Expected& expected : all) {
        if (!param.name.ends_with(expected.ending)) continue;
        ++found;
        const double logical = param.tags.logical_scale;
        const double was = logical * value_at(before.tensor, 0, param.offset);
        const double is = logical * value_at(at.params().value(param), 0, 0);
        EXPECT_NEAR(was, expected.start, 1e-12) << param.name;
        EXPECT_NEAR(was - is, kLr * expected.move, 1e-12) << param.name;
      }
    }
    EXPECT_EQ(found, 2 * 5 + 1);
  }
}

TEST(Property, P26_AConstantFactorOfUChangesNothing) {
  TinyGpt plain("base = \"ngpt\"");
  for (const char* factor : {"\"sqrt(d)\"", "0.3"}) {
    TinyGpt scaled(say("base = \"ngpt\"\nscales.up = ", factor));
    EXPECT_NEAR(scaled.backward(), plain.backward(), 1e-10);
    EXPECT_LE(distance(scaled.logits().tensor, plain.logits().tensor), 1e-10);
    EXPECT_LE(gradient_distance(scaled, plain), 1e-10);
  }
  TinyGpt stored("base = \"ngpt\"");
  EXPECT_EQ(stored.scale_all("ffn.s_u", 2.5), 2);
  EXPECT_LE(distance(stored.logits().tensor, plain.logits().tensor), 1e-10);
  EXPECT_EQ(stored.scale_all("ffn.s_v", 2.5), 2);
  EXPECT_GT(distance(stored.logits().tensor, plain.logits().tensor), 1e-3) << "the gate is no such";
}

}  // namespace
}  // namespace norma::test
