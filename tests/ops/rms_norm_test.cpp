#include "norma/ops/rms_norm.h"

#include <cmath>

#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/base/error.h"
#include "norma/tensor/plain.h"
#include "tests/support/expect.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::TestLeaf;
using test::throws;

constexpr RmsNormSpec kExact{.eps = 1e-30};  // invariances are exact without eps

/// rms_norm of x times `factor`: the value, and the gradients for a fixed random seed.
struct Result {
  OwnedTensor y, dx, dgain;
};
Result run(const Tensor& x, double factor, RmsNormSpec spec, DType dtype = DType::f64) {
  TestLeaf leaf(test::converted(x, dtype));
  scale(leaf.value, factor);
  const Index gains = spec.group == 0 || spec.gain_per_column ? x.shape.cols() : spec.group;
  TestLeaf gain({gains}, dtype, 77);
  const OwnedTensor seed = test::normals(x.shape, dtype, 78);
  Tape tape;
  const Var y = rms_norm(tape.watch(leaf), tape.watch(gain), spec);
  Result result{test::copy_of(y.value()), {}, {}};
  tape.backward({&y, 1}, {&seed.tensor, 1}, {});
  result.dx = test::copy_of(leaf.grad);
  result.dgain = test::copy_of(gain.grad);
  return result;
}

TEST(RmsNorm, ValuesByHand) {
  Tape tape;
  const OwnedTensor x = test::numbers({2, 4}, DType::f64, {1, 2, 3, 4, 0, 0, 0, 0});
  const OwnedTensor gain = test::numbers({4}, DType::f64, {1, 10, 100, -1});
  const Var y = rms_norm(tape.constant(x.tensor), tape.constant(gain.tensor), {.eps = 0.5});
  const double rstd = 1 / std::sqrt(7.5 + 0.5);
  const double want[] = {rstd, 20 * rstd, 300 * rstd, -4 * rstd};
  EXPECT_TRUE(test::matches(y.value(), [&](Index r, Index c) { return r == 0 ? want[c] : 0; }));
}

TEST(RmsNorm, IgnoresThePositiveScaleOfItsInputAndKeepsTheSign) {
  const OwnedTensor x = test::normals({5, 33}, DType::f64, 1);
  const OwnedTensor y = run(x.tensor, 1, kExact).y;
  for (const double factor : {2.0, 1e6, 1e-6}) {
    EXPECT_TRUE(test::close(run(x.tensor, factor, kExact).y.tensor, y.tensor, 1e-12)) << factor;
  }
  const OwnedTensor flipped = run(x.tensor, -3, kExact).y;
  scale(y.tensor, -1);
  EXPECT_TRUE(test::close(flipped.tensor, y.tensor, 1e-12));
}

TEST(RmsNorm, DoesNotIgnoreAShift) {
  const OwnedTensor x = test::normals({5, 33}, DType::f64, 1);
  const OwnedTensor y = run(x.tensor, 1, kExact).y;
  test::for_each_place(x.tensor.shape, [&](Index r, Index c) {
    set_value(x.tensor, r, c, value_at(x.tensor, r, c) + 0.5);
  });
  EXPECT_FALSE(test::close(run(x.tensor, 1, kExact).y.tensor, y.tensor, 1e-3));
}

TEST(RmsNorm, WithoutGainTheLengthIsTheRootOfTheWidth) {
  Tape tape;
  const OwnedTensor x = test::normals({4, 24}, DType::f64, 2, 7.0);
  for (const Index group : {24, 6}) {
    const Var y = rms_norm(tape.constant(x.tensor), {}, {.eps = 1e-30, .group = group});
    for (Index r = 0; r < 4; ++r) {
      for (Index g = 0; g < 24 / group; ++g) {
        double square = 0;
        for (Index c = 0; c < group; ++c)
          square += std::pow(value_at(y.value(), r, g * group + c), 2);
        EXPECT_NEAR(square, static_cast<double>(group), 1e-11);
      }
    }
  }
}

TEST(RmsNorm, TheGradientIsOrthogonalToTheInput) {
  const OwnedTensor x = test::normals({6, 65}, DType::f64, 3);
  for (const DType dtype : {DType::f64, DType::f32}) {
    const OwnedTensor dx = run(x.tensor, 1, kExact, dtype).dx;
    for (Index r = 0; r < 6; ++r) {
      double inner = 0, xx = 0, dd = 0;
      for (Index c = 0; c < 65; ++c) {
        inner += value_at(x.tensor, r, c) * value_at(dx.tensor, r, c);
        xx += std::pow(value_at(x.tensor, r, c), 2);
        dd += std::pow(value_at(dx.tensor, r, c), 2);
      }
      EXPECT_LE(std::abs(inner), (dtype == DType::f64 ? 1e-13 : 1e-6) * std::sqrt(xx * dd))
          << "row " << r;
    }
  }
}

TEST(RmsNorm, TheGradientShrinksAsTheInputGrows) {
  const OwnedTensor x = test::normals({5, 48}, DType::f64, 4);
  for (const RmsNormSpec spec : {kExact, RmsNormSpec{.eps = 1e-30, .group = 8}}) {
    const Result plain = run(x.tensor, 1, spec);
    for (const double factor : {3.0, 1e-4}) {
      const Result scaled = run(x.tensor, factor, spec);
      scale(scaled.dx.tensor, factor);
      EXPECT_TRUE(test::close(scaled.dx.tensor, plain.dx.tensor, 1e-11)) << factor;
      EXPECT_TRUE(test::close(scaled.dgain.tensor, plain.dgain.tensor, 1e-11)) << factor;
    }
  }
}

TEST(RmsNorm, EveryHeadStandsAlone) {
  const OwnedTensor x = test::normals({3, 12}, DType::f64, 5);
  const RmsNormSpec spec{.eps = 1e-30, .group = 4};
  const OwnedTensor y = run(x.tensor, 1, spec).y;
  scale(x.tensor.columns(4, 4), 50);  // the second head alone
  EXPECT_TRUE(test::close(run(x.tensor, 1, spec).y.tensor, y.tensor, 1e-12));
  EXPECT_FALSE(
      test::close(run(x.tensor, 1, kExact).y.tensor, run(y.tensor, 1, kExact).y.tensor, 1e-2));
}

TEST(RmsNorm, AnOffsetOfOneIsAddedToTheGain) {
  const OwnedTensor x = test::normals({3, 10}, DType::f64, 6);
  TestLeaf gain({10}, DType::f64, 7);
  Tape tape;
  const Var offset =
      rms_norm(tape.constant(x.tensor), tape.constant(gain.value), {.gain_offset = 1});
  test::for_each_place(gain.grad.shape, [&](Index r, Index c) {
    set_value(gain.grad, r, c, 1 + value_at(gain.value, r, c));
  });
  const Var plain = rms_norm(tape.constant(x.tensor), tape.constant(gain.grad));
  EXPECT_TRUE(test::close(offset.value(), plain.value(), 1e-14));
}

TEST(RmsNorm, ZeroVectorsGiveZeroAndFiniteGradients) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const OwnedTensor zero({2, 9}, dtype);
    const Result result = run(zero.tensor, 1, {}, dtype);
    EXPECT_EQ(test::dot(result.y.tensor, result.y.tensor), 0);
    EXPECT_TRUE(all_finite(result.dx.tensor));
    EXPECT_EQ(test::dot(result.dgain.tensor, result.dgain.tensor), 0);
  }
}

TEST(RmsNorm, TheRowsOfABatchDoNotKnowEachOther) {
  const OwnedTensor x = test::normals({300, 70}, DType::f32, 8);
  Tape tape;
  const Var all = rms_norm(tape.constant(x.tensor), {});
  const Tensor one(x.tensor.as<float>() + 123 * 70, {1, 70}, DType::f32);
  const Var alone = rms_norm(tape.constant(one), {});
  for (Index c = 0; c < 70; ++c)
    EXPECT_EQ(value_at(all.value(), 123, c), value_at(alone.value(), 0, c));
}

TEST(RmsNorm, BadInputsAreRefusedWithASentence) {
  Tape tape;
  const OwnedTensor x_memory({2, 6}, DType::f32);
  const OwnedTensor wide({2, 6}, DType::f64);
  const OwnedTensor ids({2, 6}, DType::i32);
  const OwnedTensor half({2, 6}, DType::bf16);
  const OwnedTensor short_gain({5}, DType::f32);
  const OwnedTensor gain64({6}, DType::f64);
  const Var x = tape.constant(x_memory.tensor);
  const Var gain = tape.constant(short_gain.tensor);
  EXPECT_TRUE(throws<RequestError>([&] { rms_norm({}, {}); }, {"rms_norm", "x is missing"}));
  EXPECT_TRUE(throws<RequestError>([&] { rms_norm(tape.constant(ids.tensor), {}); },
                                   {"rms_norm", "x", "floating-point", "i32", "(2, 6)"}));
  EXPECT_TRUE(throws<RequestError>([&] { rms_norm(tape.constant(half.tensor), {}); },
                                   {"rms_norm", "f32 or f64", "bf16"}));
  EXPECT_TRUE(throws<ShapeError>([&] { rms_norm(x, gain); }, {"rms_norm", "gain", "(6)", "(5)"}));
  EXPECT_TRUE(throws<ShapeError>([&] { rms_norm(x, gain, {.group = 3}); }, {"gain", "(3)", "(5)"}));
  EXPECT_TRUE(throws<RequestError>([&] { rms_norm(x, tape.constant(gain64.tensor)); },
                                   {"rms_norm", "gain must be f32", "f64"}));
  EXPECT_TRUE(throws<RequestError>([&] { rms_norm(x, {}, {.group = 4}); },
                                   {"rms_norm", "group must divide", "6", "got 4"}));
  EXPECT_TRUE(throws<RequestError>([&] { rms_norm(x, {}, {.group = -2}); }, {"group", "got -2"}));
}

}  // namespace
}  // namespace norma
