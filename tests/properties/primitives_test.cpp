// Properties 1, 2 and 5 to 9: what single norms do to scales, shifts and gradients.
#include <cmath>

#include <gtest/gtest.h>

#include "norma/autograd/derivatives.h"
#include "norma/checks/registry.h"
#include "norma/checks/run_case.h"
#include "norma/ops/dyt.h"
#include "norma/ops/softcap.h"
#include "norma/tensor/plain.h"
#include "tests/properties/plain_norms.h"
#include "tests/properties/tiny_gpt.h"

namespace norma::test {
namespace {

constexpr Index kRows = 5;
constexpr Index kWidth = 37;

double forward_limit(DType dtype) { return dtype == DType::f64 ? 1e-10 : 2e-5; }

TEST(Property, P01_LayerNormIgnoresScaleAndShiftAndFlipsWithTheSign) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const OwnedTensor x = normals({kRows, kWidth}, dtype, 1);
    const OwnedTensor gain = normals({kWidth}, dtype, 2);
    const OwnedTensor bias = normals({kWidth}, dtype, 3);
    const Op op = [&](Var v) {
      Tape& tape = v.tape();
      return layer_norm(v, tape.constant(gain.tensor), tape.constant(bias.tensor), {.eps = kNoEps});
    };
    const OwnedTensor y = image(op, x.tensor);
    const auto with = [&](double a, double b) {
      return image(op, moved(x.tensor, a, [&](Index, Index) { return b; }).tensor);
    };
    EXPECT_LE(distance(with(3.7, -1.5).tensor, y.tensor), forward_limit(dtype));
    EXPECT_LE(distance(with(0.02, 0.4).tensor, y.tensor), forward_limit(dtype));
    // γ⊙(−x̂) + β = 2β − y
    const OwnedTensor flipped = tabulated(y.tensor.shape, dtype, [&](Index r, Index c) {
      return 2 * value_at(bias.tensor, 0, c) - value_at(y.tensor, r, c);
    });
    EXPECT_LE(distance(with(-2.5, 0.7).tensor, flipped.tensor), forward_limit(dtype));
    const OwnedTensor uneven =
        moved(x.tensor, 1, [](Index, Index c) { return 0.1 * static_cast<double>(c % 3); });
    EXPECT_GT(distance(image(op, uneven.tensor).tensor, y.tensor), 1e-3);
  }
}

TEST(Property, P02_LengthsAndMomentsOfNormedRows) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const double limit = forward_limit(dtype);
    const OwnedTensor x = normals({kRows, kWidth}, dtype, 1, 3);
    const OwnedTensor y = image(plain_rms, x.tensor);
    EXPECT_LE(distance(image(plain_rms, scaled(x.tensor, 5.3).tensor).tensor, y.tensor), limit);
    EXPECT_LE(distance(image(plain_rms, scaled(x.tensor, -0.3).tensor).tensor,
                       scaled(y.tensor, -1).tensor),
              limit);
    EXPECT_GT(distance(image(plain_rms, shifted(x.tensor, 1).tensor).tensor, y.tensor), 1e-2);
    const OwnedTensor unit = image(plain_l2, x.tensor);
    constexpr double kEps = 0.5;
    const OwnedTensor layer =
        image([](Var v) { return layer_norm(v, {}, {}, {.eps = kEps}); }, x.tensor);
    for (Index r = 0; r < kRows; ++r) {
      double rms_squares = 0, l2_squares = 0, sum = 0, squares = 0, mean = 0, var = 0;
      for (Index c = 0; c < kWidth; ++c) {
        rms_squares += std::pow(value_at(y.tensor, r, c), 2);
        l2_squares += std::pow(value_at(unit.tensor, r, c), 2);
        sum += value_at(layer.tensor, r, c);
        squares += std::pow(value_at(layer.tensor, r, c), 2);
        mean += value_at(x.tensor, r, c) / kWidth;
      }
      for (Index c = 0; c < kWidth; ++c)
        var += std::pow(value_at(x.tensor, r, c) - mean, 2) / kWidth;
      EXPECT_NEAR(std::sqrt(rms_squares), std::sqrt(kWidth), limit * std::sqrt(kWidth));
      EXPECT_NEAR(std::sqrt(l2_squares), 1, limit);
      EXPECT_NEAR(sum / kWidth, 0, limit);
      EXPECT_NEAR(squares / kWidth, 1 - kEps / (var + kEps), limit);  // 1 − ε·r²
    }
    EXPECT_LE(distance(scaled(unit.tensor, std::sqrt(kWidth)).tensor, y.tensor), limit);
  }
}

/// With ε > 0 a norm forgets scale up to ε/mean(x²) and no better: a misplaced ε is seen.
TEST(Property, P02_EpsilonActsInsideTheMeanSquare) {
  const OwnedTensor x = normals({1, kWidth}, DType::f64, 4);
  const double mean_square = dot(x.tensor, x.tensor) / kWidth;
  constexpr double kEps = 1e-3;
  const Op op = [](Var v) { return rms_norm(v, {}, {.eps = kEps}); };
  const double change =
      distance(image(op, scaled(x.tensor, 1e6).tensor).tensor, image(op, x.tensor).tensor);
  EXPECT_LE(change, 2 * kEps / mean_square);
  EXPECT_NEAR(change, std::sqrt(1 + kEps / mean_square) - 1, 1e-9);
}

TEST(Property, P05_NormsHaveNoDerivativeAlongTheirInput) {
  TestLeaf x({1, kWidth}, DType::f64, 1);
  const OwnedTensor out({1, kWidth}, DType::f64);
  const OwnedTensor other = normals({1, kWidth}, DType::f64, 2);
  const auto slope = [&](const Op& op, const Tensor& along) {
    Tape tape;
    const Direction direction{&x, along};
    jacobian_vector(
        tape, [&](Tape& on) { return op(on.watch(x)); }, {&direction, 1}, out.tensor);
    return norm(out.tensor);
  };
  const OwnedTensor along = copy_of(x.value);
  for (const Op& op : {Op(plain_layer), Op(plain_rms), Op(plain_l2), Op(plain_scale)}) {
    EXPECT_LE(slope(op, along.tensor), 1e-9 * slope(op, other.tensor));
  }
  // J·x = y·ε·r², exactly of order ε.
  constexpr double kEps = 1e-3;
  const Op blunt = [](Var v) { return rms_norm(v, {}, {.eps = kEps}); };
  const double rstd_square = 1 / (dot(x.value, x.value) / kWidth + kEps);
  const double length = norm(image(blunt, x.value).tensor);
  EXPECT_NEAR(slope(blunt, along.tensor), length * kEps * rstd_square, 1e-8);
  // ⟨y, J v⟩ = 0 for every v: the image of L2 is a sphere.
  const OwnedTensor y = image(plain_l2, x.value);
  slope(plain_l2, other.tensor);
  EXPECT_LE(std::abs(dot(y.tensor, out.tensor)), 1e-9 * norm(out.tensor));
}

TEST(Property, P05_GradientsAreOrthogonalToWhatTheNormForgets) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const double limit = dtype == DType::f64 ? 1e-10 : 1e-4;
    const OwnedTensor seed = normals({1, kWidth}, dtype, 2);
    for (const Op& op : {Op(plain_layer), Op(plain_rms), Op(plain_l2), Op(plain_scale)}) {
      TestLeaf x({1, kWidth}, dtype, 1);
      run_op([&](Tape& tape) { return op(tape.watch(x)); }, seed.tensor);
      EXPECT_LE(std::abs(cosine(x.value, x.grad)), limit);
      EXPECT_GT(norm(x.grad), 1e-2);
    }
    TestLeaf x(shifted(normals({1, kWidth}, dtype, 1).tensor, 2));
    run_op([&](Tape& tape) { return plain_layer(tape.watch(x)); }, seed.tensor);
    const OwnedTensor ones = tabulated({1, kWidth}, dtype, [](Index, Index) { return 1.0; });
    EXPECT_LE(std::abs(cosine(ones.tensor, x.grad)), limit);
    OwnedTensor centered = copy_of(x.value);
    center_rows(centered.tensor);
    EXPECT_LE(std::abs(cosine(centered.tensor, x.grad)), limit);
  }
}

TEST(Property, P06_GradientsShrinkAsTheInputGrows) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const OwnedTensor seed = normals({kRows, kWidth}, dtype, 2);
    for (const Op& op : {Op(plain_layer), Op(plain_rms), Op(plain_l2), Op(plain_scale)}) {
      for (const double factor : {16.0, 0.3}) {
        TestLeaf x({kRows, kWidth}, dtype, 1);
        TestLeaf larger(scaled(x.value, factor));
        run_op([&](Tape& tape) { return op(tape.watch(x)); }, seed.tensor);
        run_op([&](Tape& tape) { return op(tape.watch(larger)); }, seed.tensor);
        EXPECT_LE(distance(scaled(larger.grad, factor).tensor, x.grad),
                  dtype == DType::f64 ? 1e-10 : 2e-4);
      }
    }
  }
}

TEST(Property, P07_DytIsOddBoundedLinearNearZeroAndNotScaleInvariant) {
  const OwnedTensor a = numbers({1}, DType::f64, {0.7});
  const OwnedTensor gain = normals({kWidth}, DType::f64, 2);
  const OwnedTensor bias = normals({kWidth}, DType::f64, 3);
  const auto with_bias = [&](bool biased) {
    return Op([&, biased](Var v) {
      Tape& tape = v.tape();
      return dyt(v,
                 tape.constant(a.tensor),
                 tape.constant(gain.tensor),
                 biased ? tape.constant(bias.tensor) : Var{});
    });
  };
  const OwnedTensor x = normals({kRows, kWidth}, DType::f64, 1, 3);
  const OwnedTensor y = image(with_bias(false), x.tensor);
  EXPECT_LE(distance(image(with_bias(false), scaled(x.tensor, -1).tensor).tensor,
                     scaled(y.tensor, -1).tensor),
            1e-14);
  const OwnedTensor far = image(with_bias(true), scaled(x.tensor, 1e3).tensor);
  for_each_place(far.tensor.shape, [&](Index r, Index c) {
    EXPECT_LE(std::abs(value_at(far.tensor, r, c)),
              std::abs(value_at(gain.tensor, 0, c)) + std::abs(value_at(bias.tensor, 0, c)));
  });
  const OwnedTensor small = image(with_bias(false), scaled(x.tensor, 1e-6).tensor);
  const OwnedTensor slope = tabulated(x.tensor.shape, DType::f64, [&](Index r, Index c) {
    return value_at(gain.tensor, 0, c) * 0.7 * 1e-6 * value_at(x.tensor, r, c);
  });
  EXPECT_LE(distance(small.tensor, slope.tensor), 1e-10);
  EXPECT_GT(distance(image(with_bias(false), scaled(x.tensor, 2).tensor).tensor, y.tensor), 1e-2);
}

TEST(Property, P08_SoftcapIsBoundedMonotoneAndCubicNearZero) {
  constexpr double kCap = 5;
  constexpr Index kPoints = 401;
  const OwnedTensor x = tabulated(
      {1, kPoints}, DType::f64, [](Index, Index c) { return 0.1 * static_cast<double>(c - 200); });
  const Op op = [](Var v) { return softcap(v, {.cap = kCap}); };
  const OwnedTensor y = image(op, x.tensor);
  for (Index c = 0; c < kPoints; ++c) {
    EXPECT_LT(std::abs(value_at(y.tensor, 0, c)), kCap);
    if (c > 0) {
      EXPECT_GT(value_at(y.tensor, 0, c), value_at(y.tensor, 0, c - 1));
    }
  }
  // The next term of the series is 2x⁵/(15C⁴).
  for (const double at : {0.05, -0.1, 0.2}) {
    const OwnedTensor near = numbers({1}, DType::f64, {at});
    const double got = value_at(image(op, near.tensor).tensor, 0, 0);
    const double next = 2 * std::pow(at, 5) / (15 * std::pow(kCap, 4));
    EXPECT_NEAR(got, at - std::pow(at, 3) / (3 * kCap * kCap), 1.01 * std::abs(next));
    EXPECT_NEAR(got - (at - std::pow(at, 3) / (3 * kCap * kCap)), next, 0.01 * std::abs(next));
  }
}

/// Every rule of the registry against differences; tests/checks plants faults of 1 % to show that
/// this sees them, and tries many more sizes.
TEST(Property, P09_EveryBackwardAgreesWithDifferences) {
  for (const checks::OpCheck& check : checks::registry()) {
    for (const std::string& variant : check.variants) {
      const Shape& size = check.sizes[check.sizes.size() / 2];
      const checks::CaseResult result =
          checks::run_f64_case(check, {.size = size, .variant = variant});
      EXPECT_EQ(result.failure, "");
      EXPECT_LE(result.gradient_gap, 1e-7) << check.op << " " << variant << " " << size.text();
      EXPECT_TRUE(result.unjudged.empty()) << check.op << " " << variant;
      EXPECT_FALSE(result.judged.empty()) << check.op << " " << variant;
    }
  }
}

}  // namespace
}  // namespace norma::test
