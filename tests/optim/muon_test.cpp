// Muon against products written out in double, and the properties of its orthogonalization.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "norma/base/rng.h"
#include "norma/base/threads.h"
#include "norma/kernels/direction.h"
#include "norma/kernels/optimizer.h"
#include "norma/optim/optimizer.h"
#include "tests/optim/zoo.h"

namespace norma {
namespace {

using test::Zoo;

/// A matrix in double, as plain as can be.
struct Matrix {
  Index rows = 0;
  Index cols = 0;
  std::vector<double> data;
  Matrix(Index r, Index c) : rows(r), cols(c), data(static_cast<std::size_t>(r * c)) {}
  Matrix(Index r, Index c, std::vector<double> values)
      : rows(r), cols(c), data(std::move(values)) {}
  double& operator()(Index r, Index c) { return data[static_cast<std::size_t>(r * cols + c)]; }
  double operator()(Index r, Index c) const { return data[static_cast<std::size_t>(r * cols + c)]; }
  Matrix transposed() const {
    Matrix t(cols, rows);
    for (Index r = 0; r < rows; ++r) {
      for (Index c = 0; c < cols; ++c) t(c, r) = (*this)(r, c);
    }
    return t;
  }
  double norm() const {
    double sum = 0;
    for (const double x : data) sum += x * x;
    return std::sqrt(sum);
  }
};

Matrix operator*(const Matrix& a, const Matrix& b) {
  Matrix product(a.rows, b.cols);
  for (Index i = 0; i < a.rows; ++i) {
    for (Index k = 0; k < a.cols; ++k) {
      for (Index j = 0; j < b.cols; ++j) product(i, j) += a(i, k) * b(k, j);
    }
  }
  return product;
}

Matrix combined(double x, const Matrix& a, double y, const Matrix& b) {
  Matrix sum(a.rows, a.cols);
  for (std::size_t i = 0; i < sum.data.size(); ++i) sum.data[i] = x * a.data[i] + y * b.data[i];
  return sum;
}

Matrix random_matrix(Index rows, Index cols, std::uint64_t stream) {
  Matrix m(rows, cols);
  for (std::size_t i = 0; i < m.data.size(); ++i) m.data[i] = normal_at({9, stream}, i);
  return m;
}

/// The definition, transposing where it says so.
Matrix ns5(Matrix x) {
  const bool tall = x.rows > x.cols;
  if (tall) x = x.transposed();
  x = combined(1 / (x.norm() + 1e-7), x, 0, x);
  for (int step = 0; step < 5; ++step) {
    const Matrix a = x * x.transposed();
    x = combined(3.4445, x, 1, combined(-4.7750, a, 2.0315, a * a) * x);
  }
  return tall ? x.transposed() : x;
}

/// Orthonormal columns by Gram and Schmidt, twice.
Matrix orthogonal(Index n, std::uint64_t stream) {
  Matrix q = random_matrix(n, n, stream);
  for (int round = 0; round < 2; ++round) {
    for (Index c = 0; c < n; ++c) {
      for (Index before = 0; before < c; ++before) {
        double dot = 0;
        for (Index r = 0; r < n; ++r) dot += q(r, c) * q(r, before);
        for (Index r = 0; r < n; ++r) q(r, c) -= dot * q(r, before);
      }
      double squares = 0;
      for (Index r = 0; r < n; ++r) squares += q(r, c) * q(r, c);
      for (Index r = 0; r < n; ++r) q(r, c) /= std::sqrt(squares);
    }
  }
  return q;
}

/// All singular values by one-sided Jacobi rotations of the rows.
std::vector<double> singular_values(Matrix x) {
  if (x.rows > x.cols) x = x.transposed();
  for (int sweep = 0; sweep < 30; ++sweep) {
    for (Index p = 0; p < x.rows; ++p) {
      for (Index q = p + 1; q < x.rows; ++q) {
        double pp = 0;
        double qq = 0;
        double pq = 0;
        for (Index c = 0; c < x.cols; ++c) {
          pp += x(p, c) * x(p, c);
          qq += x(q, c) * x(q, c);
          pq += x(p, c) * x(q, c);
        }
        if (std::abs(pq) < 1e-15) continue;
        const double angle = 0.5 * std::atan2(2 * pq, pp - qq);
        for (Index c = 0; c < x.cols; ++c) {
          const double a = x(p, c);
          const double b = x(q, c);
          x(p, c) = std::cos(angle) * a + std::sin(angle) * b;
          x(q, c) = -std::sin(angle) * a + std::cos(angle) * b;
        }
      }
    }
  }
  std::vector<double> values;
  for (Index r = 0; r < x.rows; ++r) {
    double squares = 0;
    for (Index c = 0; c < x.cols; ++c) squares += x(r, c) * x(r, c);
    values.push_back(std::sqrt(squares));
  }
  return values;
}

/// The direction that Muon takes in its first step from zero momentum: w moves by −lr·O.
Matrix direction(const Matrix& g, const OptimSpec& spec, DType dtype = DType::f64) {
  ParamStore params;
  params.add({"w", {g.rows, g.cols}, {.kind = ParamClass::query, .decay = false}});
  params.allocate(dtype);
  Optimizer optimizer(params, spec);
  const Tensor grad = params.grad(params.find("w"));
  test::for_each_place(grad.shape, [&](Index r, Index c) { set_value(grad, r, c, g(r, c)); });
  optimizer.step(params, {.lr = 1});
  Matrix o(g.rows, g.cols);
  test::for_each_place(grad.shape, [&](Index r, Index c) {
    o(r, c) = -value_at(params.value(params.find("w")), r, c);
  });
  return o;
}

void expect_near(const Matrix& got, const Matrix& want, double limit) {
  ASSERT_EQ(got.data.size(), want.data.size());
  for (std::size_t i = 0; i < got.data.size(); ++i) {
    ASSERT_NEAR(got.data[i], want.data[i], limit) << i;
  }
}

const OptimSpec kMuon{.name = OptimName::muon};

TEST(Property, P35_SingularValuesComeNearOne) {
  const Matrix g = random_matrix(64, 256, 1);
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const double sigma : singular_values(direction(g, kMuon, dtype))) {
      EXPECT_GT(sigma, 0.6);
      EXPECT_LT(sigma, 1.2);
    }
  }
}

TEST(Property, P35_TheScaleOfTheGradientDoesNotMatter) {
  const Matrix g = random_matrix(20, 30, 2);
  const Matrix o = direction(g, kMuon);
  // The floor of 1e-7 beside |G| is all that depends on the scale.
  expect_near(direction(combined(1000, g, 0, g), kMuon), o, 1e-6);
  expect_near(
      direction(combined(1e6, g, 0, g), kMuon), direction(combined(1e9, g, 0, g), kMuon), 1e-8);
}

TEST(Property, P35_RotationsPassThrough) {
  const Matrix g = combined(1e3, random_matrix(12, 20, 3), 0, random_matrix(12, 20, 3));
  const Matrix u = orthogonal(12, 4);
  const Matrix v = orthogonal(20, 5);
  expect_near(
      direction(u * g * v.transposed(), kMuon), u * direction(g, kMuon) * v.transposed(), 1e-8);
}

TEST(Property, P35_TransposedInputGivesTransposedOutput) {
  const Matrix g = random_matrix(14, 33, 6);
  // A tall matrix moves by √(rows/cols) more.
  const Matrix tall = direction(g.transposed(), kMuon);
  expect_near(combined(std::sqrt(14.0 / 33), tall.transposed(), 0, g), direction(g, kMuon), 1e-12);
}

TEST(Muon, SeveralStepsFollowTheFormula) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const bool nesterov : {true, false}) {
      Zoo zoo(dtype);
      Optimizer optimizer(zoo.params,
                          {.name = OptimName::muon,
                           .lr = 0.1,
                           .weight_decay = 0.2,
                           .muon_nesterov = nesterov,
                           .muon_adam_lr = 0.03});
      Matrix w(48, 12, zoo.values("up"));
      Matrix m(48, 12);
      std::vector<double> gain = zoo.values("gain");
      std::vector<double> first(gain.size());
      std::vector<double> second(gain.size());
      for (int t = 1; t <= 3; ++t) {
        zoo.draw(static_cast<std::uint64_t>(t));
        const Matrix g(48, 12, zoo.grads("up"));
        m = combined(0.95, m, 0.05 * 0.5, g);
        const Matrix o = ns5(nesterov ? combined(0.05 * 0.5, g, 0.95, m) : m);
        w = combined(1 - 0.1 * 0.2, w, -0.1 * std::sqrt(48.0 / 12), o);
        const std::vector<double> slope = zoo.grads("gain");
        for (std::size_t i = 0; i < gain.size(); ++i) {
          const double gi = 0.5 * slope[i];
          first[i] = 0.9 * first[i] + 0.1 * gi;
          second[i] = 0.95 * second[i] + 0.05 * gi * gi;
          gain[i] -= 0.03 * first[i] / (1 - std::pow(0.9, t)) /
                     (std::sqrt(second[i] / (1 - std::pow(0.95, t))) + 1e-10);
        }
        optimizer.step(zoo.params, {.lr = 0.1, .grad_scale = 0.5});
      }
      // f32: five quintic iterations amplify rounding.
      const double limit = dtype == DType::f64 ? 1e-10 : 2e-4;
      expect_near(Matrix(48, 12, zoo.values("up")), w, limit);
      const std::vector<double> got = zoo.values("gain");
      for (std::size_t i = 0; i < gain.size(); ++i) EXPECT_NEAR(got[i], gain[i], 1e-6);
    }
  }
}

TEST(Muon, ScalesAsNamed) {
  const Matrix g = random_matrix(40, 10, 7);
  const Matrix o = ns5(combined(0.0975, g, 0, g));
  const auto with = [&](MuonScale scale) {
    return direction(g, {.name = OptimName::muon, .muon_scale = scale});
  };
  expect_near(with(MuonScale::original), combined(2, o, 0, o), 1e-10);
  expect_near(with(MuonScale::rms_to_rms), combined(2, o, 0, o), 1e-10);
  expect_near(with(MuonScale::match_adamw_rms), combined(0.2 * std::sqrt(40), o, 0, o), 1e-10);
  const Matrix wide =
      direction(g.transposed(), {.name = OptimName::muon, .muon_scale = MuonScale::rms_to_rms});
  expect_near(wide, combined(0.5, o.transposed(), 0, g.transposed()), 1e-10);
}

TEST(Muon, OtherCoefficientsComeNearerToOne) {
  const Matrix g = random_matrix(64, 256, 8);
  for (const double sigma : singular_values(direction(
           g, {.name = OptimName::muon, .muon_coefficients = MuonCoefficients::polar_express}))) {
    EXPECT_NEAR(sigma, 1, 0.15);
  }
  for (const double sigma : singular_values(direction(
           g, {.name = OptimName::muon, .muon_coefficients = MuonCoefficients::quintic}))) {
    EXPECT_NEAR(sigma, 1, 0.35);
  }
}

TEST(Muon, NorMuonEvensOutRowsAndKeepsTheNorm) {
  Matrix g = random_matrix(30, 10, 9);
  const Matrix plain = direction(g, kMuon);
  const Matrix even = direction(g, {.name = OptimName::muon, .muon_norm = MuonNorm::normuon});
  EXPECT_NEAR(even.norm(), plain.norm(), 1e-10);
  // In the first step every row is divided by a multiple of its own length.
  const auto row_norm = [](const Matrix& m, Index r) {
    double squares = 0;
    for (Index c = 0; c < m.cols; ++c) squares += m(r, c) * m(r, c);
    return std::sqrt(squares);
  };
  for (Index r = 0; r < 30; ++r) EXPECT_NEAR(row_norm(even, r), row_norm(even, 0), 1e-10);
  EXPECT_GT(std::abs(row_norm(plain, 1) - row_norm(plain, 0)), 1e-3);
}

TEST(Muon, CautiousDecayWaitsWhereTheStepOpposesIt) {
  const auto run_one = [](bool cautious, double decay) {
    Zoo zoo(DType::f64);
    Optimizer optimizer(
        zoo.params,
        {.name = OptimName::muon, .weight_decay = decay, .muon_cautious_decay = cautious});
    zoo.draw(1);
    optimizer.step(zoo.params, {.lr = 0.1});
    return zoo.values("up");
  };
  const std::vector<double> start = Zoo(DType::f64).values("up");
  const std::vector<double> free = run_one(false, 0);
  const std::vector<double> cautious = run_one(true, 0.5);
  int waiting = 0;
  for (std::size_t i = 0; i < start.size(); ++i) {
    const double o = start[i] - free[i];
    const bool decays = o * start[i] >= 0;
    waiting += decays ? 0 : 1;
    EXPECT_NEAR(cautious[i], free[i] - (decays ? 0.05 * start[i] : 0), 1e-13);
  }
  EXPECT_GT(waiting, 100);
}

TEST(Muon, UnitMatricesAreUnitAfterTheStep) {
  Zoo zoo(DType::f32, test::Cage::spheres);
  Optimizer optimizer(zoo.params, kMuon);
  for (int t = 1; t <= 3; ++t) {
    zoo.draw(static_cast<std::uint64_t>(t));
    optimizer.step(zoo.params, {.lr = 0.02});
    ASSERT_LE(unit_norm_error(zoo.params), 1e-6);
  }
}

}  // namespace
}  // namespace norma
