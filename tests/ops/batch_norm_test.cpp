#include "norma/ops/batch_norm.h"

#include <cmath>

#include <gtest/gtest.h>

#include "norma/autograd/recompute.h"
#include "tests/support/expect.h"
#include "tests/support/run_op.h"

namespace norma::test {
namespace {

constexpr Index kBatch = 3;
constexpr Index kSteps = 5;
constexpr Index kWidth = 40;
const Shape kShape{kBatch, kSteps, kWidth};

/// Running statistics as they are before training.
struct Running {
  OwnedTensor mean, var;
  Running(Shape shape, DType dtype)
      : mean(shape, dtype), var(tabulated(shape, dtype, [](Index, Index) { return 1.0; })) {}
  BatchNormRunning view() const { return {mean.tensor, var.tensor}; }
};

Running fresh_running(BatchStatistics statistics, DType dtype) {
  return statistics == BatchStatistics::position ? Running({kSteps, kWidth}, dtype)
                                                 : Running(Shape{kWidth}, dtype);
}

OwnedTensor norm_of(const Tensor& x, BatchStatistics statistics, const Tensor& lengths = {}) {
  const Running running = fresh_running(statistics, x.dtype);
  return run_op([&](Tape& tape) {
    const Var l = lengths ? tape.constant(lengths) : Var{};
    return batch_norm(tape.constant(x), {}, {}, l, running.view(), {.statistics = statistics});
  });
}

class EveryStatistics : public testing::TestWithParam<BatchStatistics> {};
INSTANTIATE_TEST_SUITE_P(BatchNorm,
                         EveryStatistics,
                         testing::Values(BatchStatistics::all,
                                         BatchStatistics::position,
                                         BatchStatistics::prefix,
                                         BatchStatistics::running));

TEST_P(EveryStatistics, OnlyAllLetsTheFutureIntoThePast) {
  const OwnedTensor x = normals(kShape, DType::f32, 1);
  const OwnedTensor y = norm_of(x.tensor, GetParam());
  for (Index t = 1; t < kSteps; ++t) {
    OwnedTensor moved = copy_of(x.tensor);
    for (Index c = 0; c < kWidth; ++c) set_value(moved.tensor, kSteps + t, c, 5.0);
    const OwnedTensor other = norm_of(moved.tensor, GetParam());
    bool past_changed = false;
    for_each_place(kShape, [&](Index r, Index c) {
      if (r % kSteps < t && value_at(y.tensor, r, c) != value_at(other.tensor, r, c)) {
        past_changed = true;
      }
    });
    EXPECT_EQ(past_changed, GetParam() == BatchStatistics::all) << "token " << t;
  }
}

TEST_P(EveryStatistics, PaddingChangesNothingAndGetsNothing) {
  const OwnedTensor lengths = numbers({kBatch}, DType::i32, {5, 0, 2});
  const auto padded = [&](Index r) {
    return r % kSteps >= static_cast<Index>(value_at(lengths.tensor, 0, r / kSteps));
  };
  TestLeaf x(kShape, DType::f32, 2);
  TestLeaf other(copy_of(x.value));
  for_each_place(kShape, [&](Index r, Index c) {
    if (padded(r)) set_value(other.value, r, c, 1e6);
  });
  const OwnedTensor seed = normals(kShape, DType::f32, 3);
  const auto of = [&](TestLeaf& leaf) {
    const Running running = fresh_running(GetParam(), DType::f32);
    return run_op(
        [&](Tape& tape) {
          return batch_norm(tape.watch(leaf),
                            {},
                            {},
                            tape.constant(lengths.tensor),
                            running.view(),
                            {.statistics = GetParam()});
        },
        seed.tensor);
  };
  const OwnedTensor y = of(x);
  const OwnedTensor y_other = of(other);
  EXPECT_TRUE(same_bits(y.tensor, y_other.tensor));
  EXPECT_TRUE(same_bits(x.grad, other.grad));
  for_each_place(kShape, [&](Index r, Index c) {
    if (!padded(r)) return;
    EXPECT_EQ(value_at(y.tensor, r, c), 0);
    EXPECT_EQ(value_at(x.grad, r, c), 0);
  });
}

TEST_P(EveryStatistics, EvaluationUsesRunningStatistics) {
  const OwnedTensor x = normals(kShape, DType::f64, 4);
  Running running = fresh_running(GetParam(), DType::f64);
  fill_normal(running.mean.tensor, 5);
  const OwnedTensor y = run_op([&](Tape& tape) {
    return batch_norm(tape.constant(x.tensor),
                      {},
                      {},
                      {},
                      running.view(),
                      {.statistics = GetParam(), .training = false, .eps = 0});
  });
  const OwnedTensor before = normals(running.mean.tensor.shape, DType::f64, 5);
  EXPECT_TRUE(same_bits(running.mean.tensor, before.tensor));
  for_each_place(kShape, [&](Index r, Index c) {
    const Index row = GetParam() == BatchStatistics::position ? r % kSteps : 0;
    const double want = value_at(x.tensor, r, c) - value_at(running.mean.tensor, row, c);
    EXPECT_NEAR(value_at(y.tensor, r, c), want, 1e-12);
  });
}

TEST(BatchNorm, MatchesTheDefinitionForEveryPrefix) {
  const OwnedTensor x = normals(kShape, DType::f64, 6);
  const OwnedTensor prefix = norm_of(x.tensor, BatchStatistics::prefix);
  for (Index t = 0; t < kSteps; ++t) {
    const Shape shape{kBatch, t + 1, kWidth};
    const OwnedTensor start = tabulated(shape, DType::f64, [&](Index r, Index c) {
      return value_at(x.tensor, r / (t + 1) * kSteps + r % (t + 1), c);
    });
    const OwnedTensor all = norm_of(start.tensor, BatchStatistics::all);
    for (Index b = 0; b < kBatch; ++b) {
      for (Index c = 0; c < kWidth; ++c) {
        EXPECT_NEAR(value_at(prefix.tensor, b * kSteps + t, c),
                    value_at(all.tensor, b * (t + 1) + t, c),
                    1e-12);
      }
    }
  }
}

TEST(BatchNorm, IgnoresTheScaleOfASingleChannel) {
  const OwnedTensor x = normals(kShape, DType::f64, 7);
  const OwnedTensor scaled = tabulated(kShape, DType::f64, [&](Index r, Index c) {
    return value_at(x.tensor, r, c) * (c == 3 ? 100 : 1);
  });
  const auto of = [](const Tensor& t) {
    return run_op(
        [&](Tape& tape) { return batch_norm(tape.constant(t), {}, {}, {}, {}, {.eps = 0}); });
  };
  EXPECT_TRUE(close(of(scaled.tensor).tensor, of(x.tensor).tensor, 1e-10));
}

TEST(BatchNorm, RunningStatisticsFollowTheBatch) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    // Channel 0 holds 1, 2, 3, 6: mean 3, unbiased variance 14/3.
    const OwnedTensor x = numbers({2, 2, 1}, dtype, {1, 2, 3, 6});
    const Running all({1}, dtype);
    const Running by_position({2, 1}, dtype);
    const auto step = [&](const Running& running, BatchStatistics statistics) {
      run_op([&](Tape& tape) {
        return batch_norm(
            tape.constant(x.tensor), {}, {}, {}, running.view(), {.statistics = statistics});
      });
    };
    step(all, BatchStatistics::all);
    EXPECT_NEAR(value_at(all.mean.tensor, 0, 0), 0.3, 1e-6);
    EXPECT_NEAR(value_at(all.var.tensor, 0, 0), 0.9 + 1.4 / 3, 1e-6);
    step(all, BatchStatistics::running);  // these follow the batch as well
    EXPECT_NEAR(value_at(all.mean.tensor, 0, 0), 0.9 * 0.3 + 0.3, 1e-6);
    step(by_position, BatchStatistics::position);  // 1, 3 and 2, 6
    EXPECT_NEAR(value_at(by_position.mean.tensor, 0, 0), 0.2, 1e-6);
    EXPECT_NEAR(value_at(by_position.mean.tensor, 1, 0), 0.4, 1e-6);
    EXPECT_NEAR(value_at(by_position.var.tensor, 0, 0), 0.9 + 0.2, 1e-6);
    EXPECT_NEAR(value_at(by_position.var.tensor, 1, 0), 0.9 + 0.8, 1e-6);
  }
}

TEST(BatchNorm, ARecomputedBlockUpdatesRunningStatisticsOnce) {
  TestLeaf x({2, 2, 1}, DType::f64, 8);
  const Running once({1}, DType::f64);
  const Running again({1}, DType::f64);
  const OwnedTensor seed = normals({2, 2, 1}, DType::f64, 9);
  const auto block = [](const BatchNormRunning& running) {
    return [running](std::span<const Var> in) { return batch_norm(in[0], {}, {}, {}, running); };
  };
  run_op([&](Tape& tape) { return batch_norm(tape.watch(x), {}, {}, {}, once.view()); },
         seed.tensor);
  run_op([&](Tape& tape) { return recompute(tape, {tape.watch(x)}, block(again.view())); },
         seed.tensor);
  EXPECT_TRUE(same_bits(again.mean.tensor, once.mean.tensor));
  EXPECT_TRUE(same_bits(again.var.tensor, once.var.tensor));
}

TEST(BatchNorm, SaysWhatItWanted) {
  Tape tape;
  const OwnedTensor x = normals({2, 3, 4}, DType::f32, 10);
  const OwnedTensor flat = normals({6, 4}, DType::f32, 11);
  const OwnedTensor five = normals({5}, DType::f32, 12);
  const OwnedTensor too_long = numbers({2}, DType::i32, {3, 4});
  const OwnedTensor three = numbers({3}, DType::i32, {1, 1, 1});
  const Running narrow(Shape{5}, DType::f32);
  const Running precise(Shape{4}, DType::f64);
  const Var v = tape.constant(x.tensor);
  const auto with = [&](Var gain, Var lengths, BatchNormRunning running, BatchNormSpec spec) {
    return [=] { batch_norm(v, gain, {}, lengths, running, spec); };
  };
  EXPECT_TRUE(throws<RequestError>([&] { batch_norm(tape.constant(flat.tensor), {}, {}, {}, {}); },
                                   {"batch_norm", "(B, T, C)", "(6, 4)"}));
  EXPECT_TRUE(throws<RequestError>(with(tape.constant(five.tensor), {}, {}, {}),
                                   {"batch_norm", "gain", "(4)", "(5)"}));
  EXPECT_TRUE(throws<RequestError>(with({}, tape.constant(too_long.tensor), {}, {}),
                                   {"batch_norm", "lengths", "T = 3", "4"}));
  EXPECT_TRUE(throws<RequestError>(with({}, tape.constant(three.tensor), {}, {}),
                                   {"batch_norm", "lengths", "(2)", "(3)"}));
  EXPECT_TRUE(throws<RequestError>(with({}, tape.constant(five.tensor), {}, {}),
                                   {"batch_norm", "lengths", "i32", "f32"}));
  EXPECT_TRUE(throws<RequestError>(with({}, {}, {}, {.training = false}),
                                   {"batch_norm", "running", "(4)", "missing"}));
  EXPECT_TRUE(throws<RequestError>(with({}, {}, narrow.view(), {}),
                                   {"batch_norm", "running", "(4)", "(5)"}));
  EXPECT_TRUE(throws<RequestError>(with({}, {}, precise.view(), {}),
                                   {"batch_norm", "running", "f32", "f64"}));
}

}  // namespace
}  // namespace norma::test
