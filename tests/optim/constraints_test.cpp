#include "norma/optim/constraints.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "norma/optim/angle_meter.h"
#include "norma/optim/clip.h"
#include "tests/optim/zoo.h"
#include "tests/support/expect.h"

namespace norma {
namespace {

using test::Cage;
using test::Zoo;

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}

/// The largest singular value by 500 rounds of plain power iteration.
double sigma_of(const std::vector<double>& w, std::size_t rows, std::size_t cols) {
  std::vector<double> v(cols, 1);
  v[0] = 2;
  double sigma = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<double> u(rows);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < cols; ++c) u[r] += w[r * cols + c] * v[c];
    }
    sigma = norm(u) / norm(v);
    std::fill(v.begin(), v.end(), 0);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < cols; ++c) v[c] += w[r * cols + c] * u[r] / norm(u);
    }
  }
  return sigma;
}

TEST(Constraints, ApplyMakesRowsAndColumnsUnit) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Zoo zoo(dtype, Cage::spheres);
    for (const Param& param : zoo.params.params()) test::fill_normal(zoo.params.value(param), 5, 3);
    EXPECT_GT(unit_norm_error(zoo.params), 1);
    const std::vector<double> gain = zoo.values("gain");
    apply_constraints(zoo.params);
    EXPECT_LE(unit_norm_error(zoo.params), dtype == DType::f32 ? 5e-7 : 1e-14);
    EXPECT_EQ(zoo.values("gain"), gain);
    // Column 3 of out, row 3 of query.
    double column = 0;
    double row = 0;
    for (std::size_t i = 0; i < 12; ++i) {
      column += std::pow(zoo.values("out")[i * 24 + 3], 2);
      row += std::pow(zoo.values("query")[3 * 12 + i], 2);
    }
    EXPECT_NEAR(column, 1, 1e-6);
    EXPECT_NEAR(row, 1, 1e-6);
  }
}

TEST(Constraints, UnitNormErrorIsTheWorstVector) {
  Zoo zoo(DType::f64, Cage::spheres);
  EXPECT_LE(unit_norm_error(zoo.params), 1e-14);
  const Tensor out = zoo.params.value(zoo.params.find("out"));
  for (Index r = 0; r < 12; ++r) set_value(out, r, 7, 1.25 * value_at(out, r, 7));
  EXPECT_NEAR(unit_norm_error(zoo.params), 0.25, 1e-12);
  EXPECT_EQ(unit_norm_error(Zoo(DType::f32).params), 0);
}

TEST(Constraints, RowMaxShortensOnlyLongRows) {
  ParamStore params;
  params.add({"w", {3, 2}, {.kind = ParamClass::query, .constraint = Constraint::row_max}});
  params.allocate(DType::f32);
  const double start[] = {3, 4, 0.3, 0.4, 0, 0};
  for (Index i = 0; i < 6; ++i) set_value(params.values(), 0, i, start[i]);
  apply_constraints(params);
  const double want[] = {0.6, 0.8, 0.3, 0.4, 0, 0};
  for (Index i = 0; i < 6; ++i) EXPECT_NEAR(value_at(params.values(), 0, i), want[i], 1e-7);
  // And in a step.
  Optimizer optimizer(params, {.name = OptimName::sgdw, .momentum = 0});
  set_value(params.grads(), 0, 3, -1);
  optimizer.step(params, {.lr = 1});
  EXPECT_NEAR(value_at(params.values(), 0, 0), 0.6, 1e-7);
  EXPECT_NEAR(value_at(params.values(), 0, 2), 0.3 / std::hypot(0.3, 1.4), 1e-6);
  EXPECT_NEAR(value_at(params.values(), 0, 3), 1.4 / std::hypot(0.3, 1.4), 1e-6);
}

TEST(Constraints, FrobeniusAndSpectralNormsStay) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Constraint constraint : {Constraint::frobenius, Constraint::spectral}) {
      Zoo zoo(dtype, Cage::open, 24);
      for (Param& param : zoo.params.params()) {
        if (param.name == "up") param.tags.constraint = constraint;
      }
      const auto measure = [&] {
        return constraint == Constraint::frobenius ? norm(zoo.values("up"))
                                                   : sigma_of(zoo.values("up"), 96, 24);
      };
      const double before = measure();
      Optimizer optimizer(zoo.params, {.name = OptimName::sgdw});
      for (int t = 1; t <= 10; ++t) {
        zoo.draw(static_cast<std::uint64_t>(t));
        optimizer.step(zoo.params, {.lr = 0.01});
      }
      // Power iteration follows a singular vector that turns while it runs.
      EXPECT_NEAR(measure(), before, (constraint == Constraint::frobenius ? 1e-6 : 5e-3) * before);
      EXPECT_GT(
          std::abs(norm(zoo.values("query")) - norm(Zoo(dtype, Cage::open, 24).values("query"))),
          1e-3);
    }
  }
}

TEST(AngularCap, HiddenVectorsTurnAtMostByTheCap) {
  for (const OptimName name : {OptimName::adamw, OptimName::muon, OptimName::riemannian_adam}) {
    Zoo zoo(DType::f32, Cage::spheres, 32);
    Optimizer optimizer(zoo.params, {.name = name, .angular_cap = 0.02});
    AngleMeter meter;
    zoo.draw(1);
    meter.before(zoo.params);
    optimizer.step(zoo.params, {.lr = 0.1});
    for (const Angles& angles : meter.after(zoo.params)) {
      SCOPED_TRACE(std::string(word_of(angles.kind)));
      if (angles.kind == ParamClass::key) {  // frozen
        EXPECT_EQ(angles.mean, 0);
      } else if (is_hidden_matrix(angles.kind)) {
        EXPECT_NEAR(angles.mean, 0.02, 1e-6);
      } else if (name != OptimName::muon) {  // tables turn freely
        EXPECT_GT(angles.mean, 0.05);
      }
    }
    EXPECT_LE(unit_norm_error(zoo.params), 1e-6);
  }
}

TEST(AngleMeter, MeasuresVectorsOfSpheresAndWholeMatrices) {
  ParamStore params;
  params.add({"rows", {20, 2}, {.kind = ParamClass::query, .constraint = Constraint::unit}});
  params.add({"matrix", {2, 2}, {.kind = ParamClass::ffn_up}});
  params.add({"gain", {2}, {.kind = ParamClass::gain}});
  params.allocate(DType::f64);
  AngleMeter meter;
  EXPECT_TRUE(test::throws<Error>([&] { (void)meter.after(params); }, {"call before() first"}));
  const Tensor rows = params.value(params.find("rows"));
  const Tensor matrix = params.value(params.find("matrix"));
  for (Index r = 0; r < 20; ++r) set_value(rows, r, 0, 1);
  set_value(matrix, 0, 0, 3);
  meter.before(params);
  // Row r turns by r/100; the matrix turns by 0.5 and doubles.
  for (Index r = 0; r < 20; ++r) {
    set_value(rows, r, 0, std::cos(static_cast<double>(r) / 100));
    set_value(rows, r, 1, std::sin(static_cast<double>(r) / 100));
  }
  set_value(matrix, 0, 0, 6 * std::cos(0.5));
  set_value(matrix, 1, 1, 6 * std::sin(0.5));
  const std::vector<Angles> angles = meter.after(params);
  ASSERT_EQ(angles.size(), 2U);
  EXPECT_EQ(angles[0].kind, ParamClass::query);
  EXPECT_EQ(angles[0].count, 20);
  EXPECT_NEAR(angles[0].mean, 0.095, 1e-12);
  EXPECT_NEAR(angles[0].p95, 0.18, 1e-12);
  EXPECT_EQ(angles[1].count, 1);
  EXPECT_NEAR(angles[1].mean, 0.5, 1e-12);
}

TEST(AngleMeter, ScalarSecondMomentsTurnASphereByTheLearningRate) {
  Zoo zoo(DType::f32, Cage::spheres, 32);
  Optimizer optimizer(zoo.params, {.name = OptimName::riemannian_adam});
  AngleMeter meter;
  zoo.draw(1);
  meter.before(zoo.params);
  optimizer.step(zoo.params, {.lr = 0.01});
  for (const Angles& angles : meter.after(zoo.params)) {
    if (angles.kind == ParamClass::key) continue;
    EXPECT_NEAR(angles.mean, std::atan(0.01), 1e-6);
  }
}

TEST(TangentAdam, IsAdamOnProjectedGradients) {
  Zoo zoo(DType::f64, Cage::spheres);
  Optimizer optimizer(zoo.params, {.name = OptimName::tangent_adam});
  std::vector<double> w = zoo.values("out");
  std::vector<double> m(w.size());
  std::vector<double> v(w.size());
  for (int t = 1; t <= 3; ++t) {
    zoo.draw(static_cast<std::uint64_t>(t));
    const std::vector<double> g = zoo.grads("out");
    for (std::size_t c = 0; c < 24; ++c) {
      double dot = 0;
      for (std::size_t r = 0; r < 12; ++r) dot += w[r * 24 + c] * g[r * 24 + c];
      double squares = 0;
      for (std::size_t r = 0; r < 12; ++r) {
        const std::size_t i = r * 24 + c;
        const double p = g[i] - w[i] * dot;
        m[i] = 0.9 * m[i] + 0.1 * p;
        v[i] = 0.999 * v[i] + 0.001 * p * p;
        w[i] -= 0.02 * m[i] / (1 - std::pow(0.9, t)) /
                (std::sqrt(v[i] / (1 - std::pow(0.999, t))) + 1e-8);
        squares += w[i] * w[i];
      }
      for (std::size_t r = 0; r < 12; ++r) w[r * 24 + c] /= std::sqrt(squares);
    }
    optimizer.step(zoo.params, {.lr = 0.02});
  }
  const std::vector<double> got = zoo.values("out");
  for (std::size_t i = 0; i < w.size(); ++i) ASSERT_NEAR(got[i], w[i], 1e-12);
}

TEST(Clipper, PerTensorClipsEachGradientByItsOwnNorm) {
  Zoo zoo(DType::f32);
  zoo.draw(1);
  fill(zoo.params.grad(zoo.params.find("gain")), 0.01);
  const std::vector<double> up = zoo.grads("up");
  const Clipper clip(zoo.params, {.clip = ClipMode::per_tensor});
  const double before = GlobalNorm(zoo.params)(zoo.params);
  const ClipResult result = clip(zoo.params);
  EXPECT_DOUBLE_EQ(result.norm, before);
  EXPECT_EQ(result.grad_scale, 1);
  EXPECT_EQ(result.clipped, 6);  // all but the gain and the frozen key
  EXPECT_LE(norm(zoo.grads("up")), 1 + 1e-6);
  EXPECT_NEAR(zoo.grads("up")[5], up[5] / norm(up), 1e-6);
  EXPECT_NEAR(norm(zoo.grads("gain")), 0.01 * std::sqrt(12), 1e-6);
}

TEST(Clipper, AgcClipsRowsRelativeToTheirWeights) {
  Zoo zoo(DType::f32);
  zoo.draw(1);
  const std::vector<double> w = zoo.values("up");
  const std::vector<double> before = zoo.grads("up");
  const Clipper clip(zoo.params, {.clip = ClipMode::agc, .clip_bound = 1.9});
  const ClipResult result = clip(zoo.params);
  const std::vector<double> after = zoo.grads("up");
  int clipped = 0;
  for (std::size_t r = 0; r < 48; ++r) {
    const auto row = [&](const std::vector<double>& x) {
      return norm({x.begin() + static_cast<std::ptrdiff_t>(12 * r),
                   x.begin() + static_cast<std::ptrdiff_t>(12 * r + 12)});
    };
    const double bound = 1.9 * std::max(row(w), 1e-3);
    EXPECT_NEAR(row(after), std::min(row(before), bound), 1e-5);
    clipped += row(before) > bound ? 1 : 0;
  }
  EXPECT_GT(clipped, 5);
  EXPECT_LT(clipped, 43);
  EXPECT_GE(result.clipped, clipped);
}

TEST(Clipper, ABoundOfZeroClipsNothing) {
  for (const ClipMode mode : {ClipMode::global, ClipMode::per_tensor, ClipMode::agc}) {
    Zoo zoo(DType::f32);
    zoo.draw(1);
    const OwnedTensor before = test::copy_of(zoo.params.grads());
    const ClipResult result = Clipper(zoo.params, {.clip = mode, .clip_bound = 0})(zoo.params);
    EXPECT_EQ(result.grad_scale, 1);
    EXPECT_EQ(result.clipped, 0);
    EXPECT_GT(result.norm, 1);
    EXPECT_TRUE(test::same_bits(zoo.params.grads(), before.tensor));
  }
}

}  // namespace
}  // namespace norma
