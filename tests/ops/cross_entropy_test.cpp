#include "norma/ops/cross_entropy.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/base/error.h"
#include "norma/ops/linear.h"
#include "norma/tensor/buffer.h"
#include "norma/tensor/plain.h"
#include "tests/support/expect.h"

namespace norma {
namespace {

OwnedTensor filled(Shape shape, DType dtype, const std::vector<double>& values) {
  OwnedTensor owned(shape, dtype);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<Index>(i);
    set_value(owned.tensor, at / shape.cols(), at % shape.cols(), values[i]);
  }
  return owned;
}

double loss_of(const std::vector<double>& logits,
               Index classes,
               const std::vector<double>& ids,
               CrossEntropySpec spec = {},
               DType dtype = DType::f64) {
  const auto rows = static_cast<Index>(ids.size());
  const OwnedTensor u = filled({rows, classes}, dtype, logits);
  const OwnedTensor t = filled({rows}, DType::i32, ids);
  Tape tape;
  const Var loss = cross_entropy(tape.constant(u.tensor), tape.constant(t.tensor), {}, spec).loss;
  return value_at(loss.value(), 0, 0);
}

TEST(CrossEntropy, EvenLogitsGiveLogOfClasses) {
  EXPECT_NEAR(loss_of({2, 2, 2, 2}, 4, {1}), std::log(4.0), 1e-15);
}

TEST(CrossEntropy, KnownValue) {
  // softmax(1, 2, 3): the third class has probability 0.66524095577.
  EXPECT_NEAR(loss_of({1, 2, 3}, 3, {2}), -std::log(0.6652409557748219), 1e-14);
  // With z-loss 0.1: lse = 3.40760596444438.
  EXPECT_NEAR(loss_of({1, 2, 3}, 3, {2}, {.z_loss = 0.1}),
              0.4076059644443803 + 0.1 * 3.4076059644443803 * 3.4076059644443803,
              1e-13);
  // Smoothing 0.3 puts 0.1 on every class: Σ t·z = 0.7·3 + 0.1·6.
  EXPECT_NEAR(loss_of({1, 2, 3}, 3, {2}, {.smoothing = 0.3}), 3.4076059644443803 - 2.7, 1e-13);
}

TEST(CrossEntropy, IgnoredTokensDoNotCount) {
  const double both = loss_of({1, 2, 3, 9, 1, 1}, 3, {2, -1});
  EXPECT_NEAR(both, loss_of({1, 2, 3}, 3, {2}), 1e-15);
}

TEST(CrossEntropy, ExplicitTokensMakeMicroBatchesAddUp) {
  const double whole = loss_of({1, 2, 3, 0, 1, 5}, 3, {2, 0});
  const double parts =
      loss_of({1, 2, 3}, 3, {2}, {.tokens = 2}) + loss_of({0, 1, 5}, 3, {0}, {.tokens = 2});
  EXPECT_NEAR(whole, parts, 1e-14);
}

TEST(CrossEntropy, HugeLogitsStayFinite) {
  EXPECT_EQ(loss_of({1e15, 0, 0}, 3, {0}, {}, DType::f32), 0);
  EXPECT_NEAR(loss_of({1e15, 0, 0}, 3, {1}, {}, DType::f32), 1e15, 1e9);
}

TEST(CrossEntropy, OverwritesLogitsThatNobodyReads) {
  OwnedTensor x = filled({2, 3}, DType::f32, {1, 2, 3, 4, 5, 6});
  OwnedTensor w = filled({4, 3}, DType::f32, {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1});
  OwnedTensor dw({4, 3}, DType::f32);
  OwnedTensor t = filled({2}, DType::i32, {1, 3});
  Leaf weight{w.tensor, dw.tensor};
  Tape tape;
  const Var logits = linear(tape.constant(x.tensor), tape.watch(weight));
  cross_entropy(logits, tape.constant(t.tensor));
  EXPECT_THROW(logits.value(), Error);
  // A value that came from outside is left alone.
  OwnedTensor ids = filled({2}, DType::i32, {1, 2});
  const Var outside = tape.constant(x.tensor);
  cross_entropy(outside, tape.constant(ids.tensor));
  EXPECT_EQ(value_at(outside.value(), 1, 2), 6);
}

TEST(CrossEntropy, PreconditioningChangesOnlyTheLogitGradient) {
  const OwnedTensor t = filled({1}, DType::i32, {2});
  struct Grads {
    std::vector<double> logits, scale;
  };
  const auto grads_with = [&](double power) {
    OwnedTensor u = filled({1, 3}, DType::f64, {1, 2, 3});
    OwnedTensor s = filled({3}, DType::f64, {0.5, 1, 3});
    OwnedTensor du({1, 3}, DType::f64);
    OwnedTensor ds({3}, DType::f64);
    Leaf logits{u.tensor, du.tensor};
    Leaf scale{s.tensor, ds.tensor};
    Tape tape;
    tape.backward(
        cross_entropy(
            tape.watch(logits), tape.constant(t.tensor), tape.watch(scale), {.precondition = power})
            .loss);
    const auto values = [](const Tensor& g) {
      const auto all = g.elements<const double>();
      return std::vector<double>(all.begin(), all.end());
    };
    return Grads{values(du.tensor), values(ds.tensor)};
  };
  const Grads plain = grads_with(0);
  const Grads preconditioned = grads_with(1);
  EXPECT_EQ(plain.scale, preconditioned.scale);
  const double mean = 1.5;
  for (std::size_t j = 0; j < 3; ++j) {
    EXPECT_NEAR(preconditioned.logits[j], plain.logits[j] / mean, 1e-15);
  }
}

TEST(CrossEntropy, WithoutAWishForGradientsTheLogitsStay) {
  OwnedTensor x = filled({2, 3}, DType::f32, {1, 2, 3, 4, 5, 6});
  OwnedTensor w = filled({4, 3}, DType::f32, {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1});
  OwnedTensor t = filled({2}, DType::i32, {1, 3});
  Tape tape;
  const Var logits = linear(tape.constant(x.tensor), tape.constant(w.tensor));
  cross_entropy(logits, tape.constant(t.tensor));
  EXPECT_EQ(value_at(logits.value(), 0, 3), 6);
}

TEST(CrossEntropy, OneClassHasNoLossAndTwoClassesAreALogisticLoss) {
  EXPECT_EQ(loss_of({7}, 1, {0}, {}, DType::f32), 0);
  EXPECT_NEAR(loss_of({0.5, -0.25}, 2, {1}, {}, DType::f32), std::log1p(std::exp(0.75)), 2e-7);
}

TEST(CrossEntropy, ConfidentTokensKeepTheirDigitsInF32) {
  // The target is right with 1 − p = 2e-9: nothing that f32 could hold next to 1.
  OwnedTensor u = filled({1, 3}, DType::f32, {20, 0, 0});
  OwnedTensor du({1, 3}, DType::f32);
  OwnedTensor t = filled({1}, DType::i32, {0});
  Leaf logits{u.tensor, du.tensor};
  Tape tape;
  const Var loss = cross_entropy(tape.watch(logits), tape.constant(t.tensor)).loss;
  const double rest = 2 * std::exp(-20.0);
  EXPECT_NEAR(value_at(loss.value(), 0, 0) / std::log1p(rest), 1, 1e-6);
  tape.backward(loss);
  EXPECT_NEAR(value_at(du.tensor, 0, 0) / -(rest / (1 + rest)), 1, 1e-6);
  EXPECT_NEAR(value_at(du.tensor, 0, 1) / (rest / (1 + rest)), 0.5, 1e-6);
}

TEST(CrossEntropy, LargeScaledLogitsKeepTheirDistance) {
  // Logits near 1e4 that differ by a few units; their products with the scale do not fit f32.
  const std::vector<double> values = {10000, 10001, 10002.5, 9999};
  const OwnedTensor t = filled({1}, DType::i32, {1});
  const auto with = [&](DType dtype) {
    const OwnedTensor u = filled({1, 4}, dtype, values);
    const OwnedTensor s = filled({4}, dtype, {0.1f, 0.1f, 0.1f, 0.1f});
    Tape tape;
    return value_at(cross_entropy(tape.constant(u.tensor),
                                  tape.constant(t.tensor),
                                  tape.constant(s.tensor),
                                  {.scale_mult = 7})
                        .loss.value(),
                    0,
                    0);
  };
  EXPECT_NEAR(with(DType::f32) / with(DType::f64), 1, 1e-6);
}

TEST(CrossEntropy, ABatchOfIgnoredTokensIsZeroWhereTheDivisorIsGiven) {
  OwnedTensor u = filled({2, 3}, DType::f32, {1, 2, 3, 4, 5, 6});
  OwnedTensor du = filled({2, 3}, DType::f32, {9, 9, 9, 9, 9, 9});
  OwnedTensor t = filled({2}, DType::i32, {-1, -1});
  Leaf logits{u.tensor, du.tensor};
  Tape tape;
  const Var loss =
      cross_entropy(tape.watch(logits), tape.constant(t.tensor), {}, {.tokens = 4}).loss;
  EXPECT_EQ(value_at(loss.value(), 0, 0), 0);
  tape.backward(loss);
  for (Index c = 0; c < 3; ++c) EXPECT_EQ(value_at(du.tensor, 1, c), 0);
}

TEST(CrossEntropy, TokenLossesAddUpAndDoNotDependOnTheBatch) {
  const OwnedTensor u = filled({2, 3}, DType::f32, {1, 2, 3, -4, 0.5, 6});
  const OwnedTensor t = filled({2}, DType::i32, {2, 0});
  Tape tape;
  const CrossEntropyResult both = cross_entropy(tape.constant(u.tensor), tape.constant(t.tensor));
  const double first = value_at(both.token_losses.value(), 0, 0);
  const double second = value_at(both.token_losses.value(), 0, 1);
  EXPECT_NEAR(value_at(both.loss.value(), 0, 0), (first + second) / 2, 1e-6);
  EXPECT_EQ(first, loss_of({1, 2, 3}, 3, {2}, {}, DType::f32));
  EXPECT_EQ(second, loss_of({-4, 0.5, 6}, 3, {0}, {}, DType::f32));
}

TEST(CrossEntropy, AGradientOtherThanOneScalesWhatForwardComputed) {
  OwnedTensor x = filled({2, 3}, DType::f32, {1, 2, 3, 4, 5, 6});
  OwnedTensor t = filled({2}, DType::i32, {1, 3});
  const auto gradient = [&](double seed) {
    OwnedTensor w = filled({4, 3}, DType::f32, {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1});
    OwnedTensor dw({4, 3}, DType::f32);
    Leaf weight{w.tensor, dw.tensor};
    Tape tape;
    const Var logits = linear(tape.constant(x.tensor), tape.watch(weight));
    const std::vector<Var> roots = {cross_entropy(logits, tape.constant(t.tensor)).loss};
    const OwnedTensor given = filled({1}, DType::f32, {seed});
    const std::vector<Tensor> seeds = {given.tensor};
    tape.backward(roots, seed == 1 ? std::vector<Tensor>{} : seeds, {});
    return value_at(dw.tensor, 3, 2);
  };
  EXPECT_NE(gradient(1), 0);
  EXPECT_EQ(gradient(-0.5), -0.5 * gradient(1));
}

struct BadTargets {
  std::vector<double> ids;
  const char* part;
};
TEST(CrossEntropy, BadTargetsAreNamed) {
  for (const BadTargets& bad : {BadTargets{{0, 3}, "target 1 is 3, but there are 3 classes"},
                                BadTargets{{-2, 0}, "target 0 is -2"},
                                BadTargets{{-1, -1}, "every target is ignored"},
                                BadTargets{{1}, "N = 2"}}) {
    const OwnedTensor u = filled({2, 3}, DType::f32, {1, 2, 3, 4, 5, 6});
    const OwnedTensor t = filled({static_cast<Index>(bad.ids.size())}, DType::i32, bad.ids);
    Tape tape;
    try {
      cross_entropy(tape.constant(u.tensor), tape.constant(t.tensor));
      FAIL() << bad.part;
    } catch (const RequestError& error) {
      EXPECT_NE(std::string(error.what()).find(bad.part), std::string::npos) << error.what();
    }
  }
}

TEST(CrossEntropy, BadSettingsAreRefused) {
  EXPECT_THROW(loss_of({1, 2}, 2, {0}, {.smoothing = 1.5}), RequestError);
  EXPECT_THROW(loss_of({1, 2}, 2, {0}, {.softcap = -1}), RequestError);
  EXPECT_THROW(loss_of({1, 2}, 2, {0}, {.z_loss = std::nan("")}), RequestError);
  EXPECT_THROW(loss_of({1, 2}, 2, {0}, {.precondition = 1}), RequestError);
}

/// Of equal logits the first ranks first; ignored tokens are never right.
TEST(CrossEntropy, SaysWhichTargetsRankFirst) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const OwnedTensor logits =
        filled({6, 3}, dtype, {1, 2, 3, 1, 2, 3, 5, 5, 4, 5, 5, 4, 9, 9, 9, 0, -1, -2});
    OwnedTensor targets({6}, DType::i32);
    const std::int32_t ids[] = {2, 1, 0, 1, -1, 0};
    std::copy(ids, ids + 6, targets.tensor.as<std::int32_t>());
    const auto right = [&](const std::vector<double>& scale, CrossEntropySpec spec) {
      spec.count_right = true;
      const OwnedTensor factors = filled({3}, dtype, scale);
      Tape tape;
      const Var flags = cross_entropy(tape.constant(logits.tensor),
                                      tape.constant(targets.tensor),
                                      tape.constant(factors.tensor),
                                      spec)
                            .right;
      const auto values = flags.value().elements<const std::int32_t>();
      return std::vector<std::int32_t>(values.begin(), values.end());
    };
    using Flags = std::vector<std::int32_t>;
    EXPECT_EQ(right({1, 1, 1}, {}), (Flags{1, 0, 1, 0, 0, 1}));
    EXPECT_EQ(right({1, 1, 1}, {.softcap = 20}), (Flags{1, 0, 1, 0, 0, 1}));
    EXPECT_EQ(right({1, 2, 1}, {}), (Flags{0, 1, 0, 1, 0, 1}));  // the scale decides
    EXPECT_EQ(right({1, 2, 1}, {.softcap = 20, .scale_mult = -1}), (Flags{0, 0, 0, 0, 0, 0}));
    Tape tape;
    const Var plain = tape.constant(logits.tensor);
    EXPECT_FALSE(cross_entropy(plain, tape.constant(targets.tensor)).right);
    EXPECT_TRUE(test::throws<RequestError>(
        [&] { cross_entropy(plain, plain, {}, {.count_right = true}); }, {"count_right", "ids"}));
  }
}

}  // namespace
}  // namespace norma
