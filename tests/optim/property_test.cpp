// The numbered properties of optimizers: one test each, the number in the name.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "norma/optim/clip.h"
#include "norma/optim/optimizer.h"
#include "norma/optim/schedule.h"
#include "tests/optim/zoo.h"

namespace norma {
namespace {

using test::Cage;
using test::Zoo;

constexpr double kPi = 3.14159265358979323846;

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}

TEST(Property, P28_OneUnitStepIsTheNormalizedFreeStep) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Zoo free(dtype, Cage::spheres);
    Zoo kept(dtype, Cage::spheres);
    for (Param& param : free.params.params()) param.tags.constraint = Constraint::free;
    Optimizer free_step(free.params, {});
    Optimizer kept_step(kept.params, {});
    for (Zoo* zoo : {&free, &kept}) zoo->draw(1);
    free_step.step(free.params, {.lr = 0.03});
    kept_step.step(kept.params, {.lr = 0.03});
    for (Param& param : free.params.params()) {
      param.tags.constraint = kept.params.find(param.name).tags.constraint;
      if (param.frozen) continue;
      SCOPED_TRACE(param.name);
      const std::vector<double> moved = free.values(param.name);
      const std::vector<double> got = kept.values(param.name);
      const auto cols = static_cast<std::size_t>(param.shape.cols());
      const bool unit = param.tags.constraint == Constraint::unit;
      const bool columns = param.tags.axis == VectorAxis::columns;
      for (std::size_t i = 0; i < got.size(); ++i) {
        double squares = unit ? 0 : 1;
        for (std::size_t k = 0; k < got.size() && unit; ++k) {
          const bool same = columns ? k % cols == i % cols : k / cols == i / cols;
          if (same) squares += moved[k] * moved[k];
        }
        ASSERT_NEAR(got[i], moved[i] / std::sqrt(squares), dtype == DType::f64 ? 1e-13 : 5e-7);
      }
    }
    EXPECT_LE(unit_norm_error(kept.params), dtype == DType::f64 ? 1e-14 : 1e-6);
  }
}

TEST(Property, P32_SgdwDecayWithoutGradient) {
  Zoo zoo(DType::f64);
  Optimizer optimizer(zoo.params, {.name = OptimName::sgdw, .weight_decay = 0.3});
  const std::vector<double> before = zoo.values("up");
  fill(zoo.params.grads(), 0);
  double factor = 1;
  for (const double lr : {0.1, 0.2, 0.05}) {
    optimizer.step(zoo.params, {.lr = lr});
    factor *= 1 - lr * 0.3;
  }
  const std::vector<double> after = zoo.values("up");
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(after[i], factor * before[i], 1e-14);
  for (const StateTensor& state : optimizer.state()) {
    if (state.name == "step") continue;
    for (const double b : Zoo::list(state.tensor)) ASSERT_EQ(b, 0);
  }
}

/// w after three steps with gradients 1, -0.5, 0.25 from w = 1; lr 0.1.
double three_steps(const OptimSpec& spec) {
  ParamStore params;
  params.add({"w", {1}, {}});
  params.allocate(DType::f64);
  fill(params.values(), 1);
  Optimizer optimizer(params, spec);
  for (const double g : {1.0, -0.5, 0.25}) {
    fill(params.grads(), 0);
    set_value(params.grads(), 0, 0, g);
    optimizer.step(params, {.lr = 0.1});
  }
  return value_at(params.values(), 0, 0);
}

TEST(Property, P32_SgdwThreeStepsByHand) {
  // b = 1; 0.5·1 − 0.5 = 0; 0.5·0 + 0.25. w: 1 → 0.98 − 0.1 = 0.88 → 0.8624 → 0.845152 − 0.025.
  const double sgdw = three_steps({.name = OptimName::sgdw, .weight_decay = 0.2, .momentum = 0.5});
  EXPECT_NEAR(sgdw, 0.820152, 1e-12);
  // Coupled: g = 1.2; b = 1.2, w = 0.88. g = −0.5 + 0.176 = −0.324; b = 0.276, w = 0.8524.
  // g = 0.25 + 0.17048 = 0.42048; b = 0.55848, w = 0.796552.
  const double sgd = three_steps({.name = OptimName::sgd, .weight_decay = 0.2, .momentum = 0.5});
  EXPECT_NEAR(sgd, 0.796552, 1e-12);
  // Without decay both are the same.
  EXPECT_EQ(three_steps({.name = OptimName::sgdw, .momentum = 0.5}),
            three_steps({.name = OptimName::sgd, .momentum = 0.5}));
}

TEST(Property, P32_TheFirstBufferIsTheGradientEvenWithDamping) {
  Zoo zoo(DType::f64);
  Optimizer optimizer(zoo.params, {.name = OptimName::sgdw, .damping = 0.7});
  zoo.draw(1);
  optimizer.step(zoo.params, {.lr = 0.1});
  for (const StateTensor& state : optimizer.state()) {
    if (state.name == "up.momentum") {
      EXPECT_EQ(Zoo::list(state.tensor), zoo.grads("up"));
      return;
    }
  }
  FAIL() << "there is no state up.momentum";
}

TEST(Property, P33_AdamWFirstStepAndInvarianceToTheScaleOfGradients) {
  std::vector<std::vector<double>> ends;
  for (const double grad_scale : {1.0, 1000.0, 1e-3}) {
    Zoo zoo(DType::f64);
    Optimizer optimizer(zoo.params, {.weight_decay = 0.1, .eps = 1e-30});
    const std::vector<double> before = zoo.values("up");
    zoo.draw(1);
    const std::vector<double> g = zoo.grads("up");
    optimizer.step(zoo.params, {.lr = 0.01, .grad_scale = grad_scale});
    const std::vector<double> after = zoo.values("up");
    for (std::size_t i = 0; i < g.size(); ++i) {
      EXPECT_NEAR(after[i], before[i] * (1 - 0.001) - 0.01 * (g[i] > 0 ? 1 : -1), 1e-12);
    }
    zoo.draw(2);
    optimizer.step(zoo.params, {.lr = 0.01, .grad_scale = grad_scale});
    ends.push_back(zoo.values("up"));
  }
  for (std::size_t i = 0; i < ends[0].size(); ++i) {
    EXPECT_NEAR(ends[1][i], ends[0][i], 1e-12);
    EXPECT_NEAR(ends[2][i], ends[0][i], 1e-12);
  }
}

TEST(Property, P34_LionMovesByTheLearningRateAtMost) {
  Zoo zoo(DType::f64);
  Optimizer optimizer(zoo.params, {.name = OptimName::lion});
  for (int t = 1; t <= 3; ++t) {
    zoo.draw(static_cast<std::uint64_t>(t));
    const std::vector<double> before = zoo.values("up");
    optimizer.step(zoo.params, {.lr = 0.01});
    const std::vector<double> after = zoo.values("up");
    double most = 0;
    for (std::size_t i = 0; i < after.size(); ++i) {
      most = std::max(most, std::abs(after[i] - before[i]));
    }
    EXPECT_NEAR(most, 0.01, 1e-12);
  }
}

TEST(Property, P34_AdagradRowsWithoutGradientDoNotMove) {
  Zoo zoo(DType::f32);
  Optimizer optimizer(zoo.params, {.name = OptimName::adagrad});
  zoo.draw(1);
  optimizer.step(zoo.params, {.lr = 0.01});
  const std::vector<double> before = zoo.values("embedding");
  zoo.draw(2);
  const Tensor grad = zoo.params.grad(zoo.params.find("embedding"));
  for (Index c = 0; c < 12; ++c) set_value(grad, 5, c, 0);
  optimizer.step(zoo.params, {.lr = 0.01});
  const std::vector<double> after = zoo.values("embedding");
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_EQ(after[i] == before[i], i / 12 == 5);
}

TEST(Property, P36_RiemannianAdamStaysOnItsSpheres) {
  for (const Transport transport : {Transport::projection, Transport::parallel}) {
    for (const Retraction retraction : {Retraction::normalize, Retraction::exponential}) {
      Zoo zoo(DType::f32, Cage::spheres, 64);
      Optimizer optimizer(
          zoo.params,
          {.name = OptimName::riemannian_adam, .transport = transport, .retraction = retraction});
      for (int t = 1; t <= 10; ++t) {
        zoo.draw(static_cast<std::uint64_t>(t));
        optimizer.step(zoo.params, {.lr = 0.1});
        ASSERT_LE(unit_norm_error(zoo.params), 1e-6);
      }
      for (const StateTensor& state : optimizer.state()) {
        if (state.name != "query.m" && state.name != "out.m") continue;
        const bool columns = state.name == "out.m";
        const std::vector<double> w = zoo.values(columns ? "out" : "query");
        const std::vector<double> m = Zoo::list(state.tensor);
        const std::size_t cols = columns ? 128 : 64;
        std::vector<double> dots(columns ? 128 : 64);
        for (std::size_t i = 0; i < w.size(); ++i)
          dots[columns ? i % cols : i / cols] += w[i] * m[i];
        for (const double dot : dots) ASSERT_LE(std::abs(dot), 1e-6) << state.name;
      }
      // One second moment per sphere.
      std::size_t spheres = 0;
      for (const StateTensor& state : optimizer.state()) {
        if (state.name == "out.v") spheres = static_cast<std::size_t>(state.tensor.count());
      }
      EXPECT_EQ(spheres, 128U);
    }
  }
}

TEST(Property, P36_ParallelTransportKeepsTheLengthOfMomentum) {
  // With beta1 next to 1 and no gradient, m only turns.
  Zoo zoo(DType::f64, Cage::spheres);
  Optimizer optimizer(zoo.params,
                      {.name = OptimName::riemannian_adam,
                       .beta1 = 0.5,
                       .transport = Transport::parallel,
                       .retraction = Retraction::exponential});
  zoo.draw(1);
  optimizer.step(zoo.params, {.lr = 0.3});
  const auto momentum = [&] {
    for (const StateTensor& state : optimizer.state()) {
      if (state.name == "query.m") return Zoo::list(state.tensor);
    }
    return std::vector<double>{};
  };
  const std::vector<double> before = momentum();
  fill(zoo.params.grads(), 0);
  optimizer.step(zoo.params, {.lr = 0.3});
  const std::vector<double> after = momentum();
  EXPECT_NEAR(norm(after), 0.5 * norm(before), 1e-12);
  EXPECT_GT(norm(before), 0.1);
}

TEST(Property, P36_OnACircleItIsAdamOnTheAngle) {
  ParamStore params;
  params.add({"w", {1, 2}, {.kind = ParamClass::query, .constraint = Constraint::unit}});
  params.allocate(DType::f64);
  double angle = 0.4;
  set_value(params.values(), 0, 0, std::cos(angle));
  set_value(params.values(), 0, 1, std::sin(angle));
  Optimizer optimizer(params,
                      {.name = OptimName::riemannian_adam,
                       .beta1 = 0.9,
                       .beta2 = 0.95,
                       .transport = Transport::parallel,
                       .retraction = Retraction::exponential});
  double m = 0;
  double v = 0;
  for (int t = 1; t <= 6; ++t) {
    // The loss is ⟨g, w⟩ with a g that changes; its slope in the angle is ⟨g, w turned by 90°⟩.
    const double gx = std::cos(1.7 * t);
    const double gy = std::sin(2.9 * t);
    set_value(params.grads(), 0, 0, gx);
    set_value(params.grads(), 0, 1, gy);
    optimizer.step(params, {.lr = 0.1});
    const double slope = -gx * std::sin(angle) + gy * std::cos(angle);
    m = 0.9 * m + 0.1 * slope;
    v = 0.95 * v + 0.05 * slope * slope;
    angle -= 0.1 * m / (1 - std::pow(0.9, t)) / (std::sqrt(v / (1 - std::pow(0.95, t))) + 1e-8);
    EXPECT_NEAR(value_at(params.values(), 0, 0), std::cos(angle), 1e-12);
    EXPECT_NEAR(value_at(params.values(), 0, 1), std::sin(angle), 1e-12);
  }
}

TEST(Property, P37_ClippedGradientsAreAtMostTheBoundAndShortOnesStay) {
  for (const double bound : {0.5, 1.0, 1e6}) {
    Zoo zoo(DType::f32);
    zoo.params.freeze("key", false);
    zoo.draw(1);
    const OwnedTensor before = test::copy_of(zoo.params.grads());
    const ClipResult result = Clipper(zoo.params, {.clip_bound = bound})(zoo.params);
    EXPECT_LE(result.grad_scale * result.norm, bound * (1 + 1e-6));
    EXPECT_EQ(result.clipped, bound < 100 ? 1 : 0);
    EXPECT_EQ(result.grad_scale == 1, bound > 100);
    EXPECT_NEAR(result.norm, std::sqrt(test::dot(before.tensor, before.tensor)), 1e-4);
  }
}

TEST(Property, P38_Schedules) {
  const Index W = 20;
  const Index D = 200;
  const ScheduleSpec cosine{.warmup = W, .min_lr = 0.1};
  EXPECT_DOUBLE_EQ(lr_at(cosine, 1, 0, D), 1.0 / 21);
  EXPECT_DOUBLE_EQ(lr_at(cosine, 1, W, D), 1);
  EXPECT_DOUBLE_EQ(lr_at(cosine, 1, D, D), 0.1);
  EXPECT_NEAR(lr_at(cosine, 1, 110, D), 0.55, 1e-12);
  const ScheduleSpec log{.name = ScheduleName::log, .warmup = W, .min_lr = 0.1, .rho = 0.05};
  EXPECT_DOUBLE_EQ(lr_at(log, 1, W, D), 1);
  EXPECT_DOUBLE_EQ(lr_at(log, 1, D, D), 0.1);
  for (Index step = W; step < D; ++step) {
    EXPECT_GT(lr_at(log, 1, step, D), lr_at(log, 1, step + 1, D)) << step;
  }
  // r = ½: 1 − ln(11)/ln(21)
  EXPECT_NEAR(lr_at(log, 1, 110, D), 0.1 + 0.9 * (1 - std::log(11) / std::log(21)), 1e-12);
  const ScheduleSpec timm{.name = ScheduleName::timm_cosine, .warmup = 60, .jump = true};
  EXPECT_NEAR(lr_at(timm, 1, 60, 150), 0.6545, 5e-5);
  ScheduleSpec smooth = timm;
  smooth.jump = false;
  EXPECT_DOUBLE_EQ(lr_at(smooth, 1, 60, 150), 1);
  EXPECT_NEAR(lr_at(smooth, 1, 105, 150), 0.5, 1e-12);
  EXPECT_NEAR(lr_at(timm, 1, 105, 150), 0.5 * (1 + std::cos(kPi * 0.7)), 1e-12);
}

TEST(Property, P39_HyperballKeepsTheNormAndMovesByTheLearningRate) {
  for (const OptimName name : {OptimName::adamw, OptimName::muon}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      Zoo zoo(dtype, Cage::open, 24);
      const double radius = norm(zoo.values("up"));
      Optimizer optimizer(zoo.params, {.name = name, .hyperball = true});
      for (int t = 1; t <= 4; ++t) {
        zoo.draw(static_cast<std::uint64_t>(t));
        const std::vector<double> before = zoo.values("up");
        optimizer.step(zoo.params, {.lr = 0.01});
        const std::vector<double> after = zoo.values("up");
        ASSERT_NEAR(norm(after), radius, 1e-6 * radius);
        std::vector<double> moved(after.size());
        for (std::size_t i = 0; i < after.size(); ++i) moved[i] = after[i] - before[i];
        EXPECT_NEAR(norm(moved) / radius, 0.01, 2e-4);
      }
      const bool adam = name == OptimName::adamw;
      EXPECT_EQ(std::abs(norm(zoo.values("head")) -
                         norm(Zoo(dtype, Cage::open, 24).values("head"))) < 1e-5,
                adam);
    }
  }
}

TEST(Property, P39_GatedAdamWithPowerOneIsAdam) {
  Zoo gated(DType::f64);
  Zoo plain(DType::f64);
  Optimizer gated_step(gated.params,
                       {.name = OptimName::gated_adamw, .eps = 1e-30, .gate = 1, .eps_gate = 0.02});
  Optimizer plain_step(plain.params, {.name = OptimName::adamw, .eps = 0.02});
  for (int t = 1; t <= 4; ++t) {
    for (Zoo* zoo : {&gated, &plain}) zoo->draw(static_cast<std::uint64_t>(t));
    gated_step.step(gated.params, {.lr = 0.02});
    plain_step.step(plain.params, {.lr = 0.02});
  }
  const std::vector<double> got = gated.values("up");
  const std::vector<double> want = plain.values("up");
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-13);
}

}  // namespace
}  // namespace norma
