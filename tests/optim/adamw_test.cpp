#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "norma/optim/optimizer.h"
#include "norma/tensor/plain.h"
#include "tests/support/expect.h"
#include "tests/support/values.h"

namespace norma {
namespace {

constexpr double kTinyEps = 1e-30;

/// A decayed matrix, an undecayed gain, a frozen part of a fused pair and a slow parameter.
class AdamWTest : public testing::TestWithParam<DType> {
 protected:
  AdamWTest() {
    params_.add({"matrix", {6, 5}, {}});
    params_.add({"gain", {5}, {.decay = false}});
    params_.add_fused({{"live", {3, 5}, {}}, {"still", {3, 5}, {}}});
    params_.add({"slow", {7}, {.lr_scale = 0.25}});
    params_.allocate(GetParam());
    std::uint64_t stream = 1;
    for (const Param& param : params_.params()) {
      test::fill_normal(params_.value(param), stream++);
      test::fill_normal(params_.grad(param), stream++);
    }
    params_.freeze("still");
    before_ = test::copy_of(params_.values());
  }
  double limit() const { return GetParam() == DType::f64 ? 1e-12 : 1e-6; }
  /// The value of a parameter before the first step.
  double before(const Param& param, Index r, Index c) const {
    return value_at(before_.tensor, 0, param.offset + r * param.shape.cols() + c);
  }

  ParamStore params_;
  OwnedTensor before_;
};
INSTANTIATE_TEST_SUITE_P(Types,
                         AdamWTest,
                         testing::Values(DType::f32, DType::f64),
                         [](const auto& type) { return std::string(name_of(type.param)); });

TEST_P(AdamWTest, TheFirstStepMovesByTheLearningRateAlongTheSignPlusDecay) {
  Optimizer optimizer(params_, {.weight_decay = 0.1, .eps = kTinyEps});
  optimizer.step(params_, {.lr = 0.01});
  for (const Param& param : params_.params()) {
    if (param.frozen) continue;
    SCOPED_TRACE(param.name);
    const double lr = 0.01 * param.tags.lr_scale;
    const double keep = param.tags.decay ? 1 - lr * 0.1 : 1;
    const Tensor grad = params_.grad(param);
    EXPECT_TRUE(test::matches(
        params_.value(param),
        [&](Index r, Index c) {
          return keep * before(param, r, c) - lr * (value_at(grad, r, c) > 0 ? 1 : -1);
        },
        limit()));
  }
}

TEST_P(AdamWTest, FrozenParametersAndGapsAreUntouched) {
  Optimizer optimizer(params_, {});
  fill(params_.grad(params_.find("still")), 5);
  for (int i = 0; i < 3; ++i) optimizer.step(params_, {.lr = 0.1});
  const Param& still = params_.find("still");
  EXPECT_TRUE(test::matches(
      params_.value(still), [&](Index r, Index c) { return before(still, r, c); }, 0));
  // Outside of all parameters there are only zeros.
  std::vector<bool> owned(static_cast<std::size_t>(params_.values().count()), false);
  for (const Param& param : params_.params()) {
    for (Index i = 0; i < param.count(); ++i)
      owned[static_cast<std::size_t>(param.offset + i)] = true;
  }
  for (std::size_t i = 0; i < owned.size(); ++i) {
    if (owned[i]) continue;
    EXPECT_EQ(value_at(params_.values(), 0, static_cast<Index>(i)), 0) << i;
  }
}

TEST_P(AdamWTest, DecayShrinksOnlyWhereItIsTagged) {
  fill(params_.grads(), 0);
  Optimizer optimizer(params_, {.weight_decay = 0.5});
  for (int i = 0; i < 4; ++i) optimizer.step(params_, {.lr = 0.1});
  for (const Param& param : params_.params()) {
    if (param.frozen) continue;
    SCOPED_TRACE(param.name);
    const double factor = param.tags.decay ? std::pow(1 - 0.1 * param.tags.lr_scale * 0.5, 4) : 1;
    EXPECT_TRUE(test::matches(
        params_.value(param),
        [&](Index r, Index c) { return factor * before(param, r, c); },
        limit()));
  }
}

TEST_P(AdamWTest, TheScaleOfTheGradientDoesNotMatter) {
  const auto run = [&](double gradient_factor, double grad_scale) {
    copy(before_.tensor, params_.values());
    const OwnedTensor kept = test::copy_of(params_.grads());
    scale(params_.grads(), gradient_factor);
    Optimizer optimizer(params_, {.weight_decay = 0.1, .eps = kTinyEps});
    for (int i = 0; i < 3; ++i) optimizer.step(params_, {.lr = 0.01, .grad_scale = grad_scale});
    copy(kept.tensor, params_.grads());
    return test::copy_of(params_.values());
  };
  const OwnedTensor plain = run(1, 1);
  EXPECT_TRUE(test::close(run(1000, 1).tensor, plain.tensor, limit()));
  EXPECT_TRUE(test::close(run(1, 0.001).tensor, plain.tensor, limit()));
}

TEST_P(AdamWTest, TheClippingFactorIsAFactorOfTheGradient) {
  Optimizer clipped(params_, {.eps = 0.3});
  clipped.step(params_, {.lr = 0.01, .grad_scale = 0.25});
  const OwnedTensor got = test::copy_of(params_.values());
  copy(before_.tensor, params_.values());
  scale(params_.grads(), 0.25);
  Optimizer plain(params_, {.eps = 0.3});
  plain.step(params_, {.lr = 0.01});
  EXPECT_TRUE(test::close(got.tensor, params_.values(), limit()));
}

TEST_P(AdamWTest, SeveralStepsFollowTheFormula) {
  const OptimSpec spec{.weight_decay = 0.2, .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-3};
  Optimizer optimizer(params_, spec);
  const Param& param = params_.find("matrix");
  double w = before(param, 2, 3);
  double m = 0;
  double v = 0;
  for (int t = 1; t <= 5; ++t) {
    test::fill_normal(params_.grad(param), 50 + static_cast<std::uint64_t>(t));
    const double g = value_at(params_.grad(param), 2, 3) * 0.5;
    optimizer.step(params_, {.lr = 0.02, .grad_scale = 0.5});
    w *= 1 - 0.02 * spec.weight_decay;
    m = 0.8 * m + 0.2 * g;
    v = 0.9 * v + 0.1 * g * g;
    w -= 0.02 * (m / (1 - std::pow(0.8, t))) / (std::sqrt(v / (1 - std::pow(0.9, t))) + 1e-3);
    EXPECT_NEAR(value_at(params_.value(param), 2, 3), w, limit()) << "step " << t;
  }
}

TEST_P(AdamWTest, TheStateIsTwoNumbersPerElementThatMoves) {
  const Optimizer optimizer(params_, {});
  const Index moving = params_.count() - params_.find("still").count();
  EXPECT_EQ(optimizer.state_bytes(), 2 * static_cast<std::size_t>(moving) * size_of(GetParam()));
}

}  // namespace
}  // namespace norma
