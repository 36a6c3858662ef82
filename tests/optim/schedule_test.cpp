#include "norma/optim/schedule.h"

#include <cmath>

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "tests/support/expect.h"

namespace norma {
namespace {

using test::throws;

TEST(Schedule, CosineWithoutWarmupStartsAtThePeak) {
  const ScheduleSpec spec{.min_lr = 0.2};
  EXPECT_DOUBLE_EQ(lr_at(spec, 2, 0, 100), 2);
  EXPECT_NEAR(lr_at(spec, 2, 25, 100), 0.2 + 1.8 * 0.5 * (1 + std::sqrt(0.5)), 1e-12);
  EXPECT_DOUBLE_EQ(lr_at(spec, 2, 1000, 100), 0.2);
}

TEST(Schedule, TheDecayMayEndBeforeTheRun) {
  const ScheduleSpec spec{.warmup = 10, .min_lr = 0.1, .decay_steps = 60};
  EXPECT_NEAR(lr_at(spec, 1, 35, 100), 0.55, 1e-12);
  EXPECT_DOUBLE_EQ(lr_at(spec, 1, 60, 100), 0.1);
  EXPECT_DOUBLE_EQ(lr_at(spec, 1, 99, 100), 0.1);
}

TEST(Schedule, WarmupAsAShareOfTheRun) {
  const ScheduleSpec share{.warmup_fraction = 0.1};
  const ScheduleSpec steps{.warmup = 20};
  for (const Index step : {0, 5, 19, 20, 21, 150}) {
    EXPECT_EQ(lr_at(share, 1, step, 200), lr_at(steps, 1, step, 200));
  }
}

TEST(Schedule, TimmWarmsUpFromItsOwnStart) {
  const ScheduleSpec spec{.name = ScheduleName::timm_cosine, .warmup = 4, .warmup_from = 0.2};
  EXPECT_DOUBLE_EQ(lr_at(spec, 1, 0, 10), 0.2);
  EXPECT_DOUBLE_EQ(lr_at(spec, 1, 1, 10), 0.4);
  EXPECT_DOUBLE_EQ(lr_at(spec, 1, 3, 10), 0.8);
  EXPECT_DOUBLE_EQ(lr_at(spec, 1, 4, 10), 1);
}

TEST(Schedule, WsdIsFlatAndThenFalls) {
  ScheduleSpec spec{.name = ScheduleName::wsd, .warmup = 10, .min_lr = 0.1, .decay_fraction = 0.2};
  EXPECT_NEAR(lr_at(spec, 1, 4, 100), 5.0 / 11, 1e-12);
  EXPECT_DOUBLE_EQ(lr_at(spec, 1, 10, 100), 1);
  EXPECT_DOUBLE_EQ(lr_at(spec, 1, 80, 100), 1);
  EXPECT_NEAR(lr_at(spec, 1, 85, 100), 0.1 + 0.9 * 0.75, 1e-12);
  EXPECT_DOUBLE_EQ(lr_at(spec, 1, 100, 100), 0.1);
  spec.shape = DecayShape::minus_sqrt;
  EXPECT_NEAR(lr_at(spec, 1, 85, 100), 0.1 + 0.9 * 0.5, 1e-12);
}

TEST(Schedule, InverseSqrtRisesAndFalls) {
  const ScheduleSpec spec{.name = ScheduleName::inverse_sqrt, .warmup = 16};
  EXPECT_NEAR(lr_at(spec, 2, 0, 1000), 2.0 / 64, 1e-12);
  EXPECT_NEAR(lr_at(spec, 2, 7, 1000), 2.0 * 8 / 64, 1e-12);
  EXPECT_NEAR(lr_at(spec, 2, 15, 1000), 2.0 / 4, 1e-12);
  EXPECT_NEAR(lr_at(spec, 2, 99, 1000), 2.0 / 10, 1e-12);
}

TEST(Schedule, ConstantStaysAfterWarmup) {
  const ScheduleSpec spec{.name = ScheduleName::constant, .warmup = 1};
  EXPECT_DOUBLE_EQ(lr_at(spec, 3, 0, 5), 1.5);
  EXPECT_DOUBLE_EQ(lr_at(spec, 3, 1, 5), 3);
  EXPECT_DOUBLE_EQ(lr_at(spec, 3, 500, 5), 3);
}

TEST(Schedule, RefusesWhatCannotBeRight) {
  EXPECT_TRUE(throws<RequestError>([] { lr_at({.min_lr = 2}, 1, 0, 10); },
                                   {"min_lr must be at most the peak 1, got 2"}));
  EXPECT_TRUE(throws<RequestError>([] { lr_at({.warmup = 10}, 1, 0, 10); },
                                   {"warmup must be shorter than the 10 steps", "got 10"}));
  EXPECT_TRUE(
      throws<RequestError>([] { lr_at({.warmup = -1}, 1, 0, 10); }, {"warmup must be between 0"}));
  EXPECT_TRUE(throws<RequestError>([] { lr_at({.name = ScheduleName::log, .rho = 0}, 1, 0, 10); },
                                   {"rho must be between"}));
  EXPECT_TRUE(throws<RequestError>([] { lr_at({}, std::nan(""), 0, 10); }, {"peak", "nan"}));
  EXPECT_TRUE(throws<RequestError>([] { lr_at({}, 1, -1, 10); }, {"step must be at least 0"}));
  EXPECT_TRUE(throws<RequestError>([] { lr_at({}, 1, 0, 0); }, {"total at least 1"}));
}

}  // namespace
}  // namespace norma
