#include "norma/kernels/direction.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "norma/base/rng.h"
#include "norma/base/threads.h"
#include "norma/kernels/optimizer.h"

namespace norma::kernels {
namespace {

template <class T>
std::vector<T> normals(Index count, std::uint64_t stream) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<T>(static_cast<float>(normal_at({8, stream}, i)));
  }
  return values;
}

void expect_near(const std::vector<float>& got, const std::vector<double>& want, double limit) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(got[i]), want[i], limit * (std::abs(want[i]) + 1)) << i;
  }
}

constexpr Index kCount = 20001;

template <class T, class Who>
std::vector<T> momentum_direction(Who who, bool nesterov) {
  const auto g = normals<T>(kCount, 1);
  auto m = normals<T>(kCount, 2);
  std::vector<T> u(g.size());
  const MoveRule rule{.grad_scale = 0.7, .lr = 0, .factor = 0, .decay = 0};
  run(who, MomentumDirection<T>{g.data(), m.data(), u.data(), kCount, &rule, 0.9, nesterov});
  u.insert(u.end(), m.begin(), m.end());
  return u;
}

TEST(MomentumDirection, FollowsTheFormula) {
  for (const bool nesterov : {false, true}) {
    const auto g = normals<double>(kCount, 1);
    const auto m = normals<double>(kCount, 2);
    std::vector<double> want;
    std::vector<double> moments;
    for (std::size_t i = 0; i < g.size(); ++i) {
      moments.push_back(0.9 * m[i] + 0.1 * 0.7 * g[i]);
      want.push_back(nesterov ? 0.1 * 0.7 * g[i] + 0.9 * moments[i] : moments[i]);
    }
    want.insert(want.end(), moments.begin(), moments.end());
    expect_near(momentum_direction<float>(Cpu{}, nesterov), want, 1e-6);
    const auto exact = momentum_direction<double>(Ref{}, nesterov);
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(exact[i], want[i], 1e-14);
  }
}

TEST(AdamDirection, IsTheRatioOfAdam) {
  const auto g = normals<double>(kCount, 1);
  std::vector<double> want;
  for (const double x : g) {
    const double scaled = 0.5 * x;
    const double m = 0.2 * scaled / (1 - std::pow(0.8, 3));
    want.push_back(m / (std::sqrt(0.1 * scaled * scaled / (1 - std::pow(0.9, 3))) + 1e-2));
  }
  const AdamRule rule{0.5, 0, 0, 0, 0.8, 0.9, 1e-2, 3};
  const auto g32 = normals<float>(kCount, 1);
  std::vector<float> m32(g.size());
  std::vector<float> v32(g.size());
  std::vector<float> u32(g.size());
  run(Cpu{}, AdamDirection<float>{g32.data(), m32.data(), v32.data(), u32.data(), kCount, &rule});
  expect_near(u32, want, 1e-6);
  std::vector<double> m(g.size());
  std::vector<double> v(g.size());
  std::vector<double> u(g.size());
  run(Ref{}, AdamDirection<double>{g.data(), m.data(), v.data(), u.data(), kCount, &rule});
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(u[i], want[i], 1e-13);
}

TEST(DirectionStep, DecaysCautiouslyWhenAsked) {
  for (const bool cautious : {false, true}) {
    const auto w0 = normals<double>(kCount, 3);
    const auto u = normals<double>(kCount, 4);
    std::vector<double> want;
    for (std::size_t i = 0; i < w0.size(); ++i) {
      const bool decays = !cautious || u[i] * w0[i] >= 0;
      want.push_back(w0[i] - (decays ? 0.25 * w0[i] : 0) - 0.1 * u[i]);
    }
    auto w = w0;
    const MoveRule rule{.grad_scale = 1, .lr = 0, .factor = 0.1, .decay = 0.25};
    run(Ref{}, DirectionStep<double>{w.data(), u.data(), kCount, &rule, cautious});
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(w[i], want[i], 1e-14);
    auto w32 = normals<float>(kCount, 3);
    const auto u32 = normals<float>(kCount, 4);
    run(Cpu{}, DirectionStep<float>{w32.data(), u32.data(), kCount, &rule, cautious});
    expect_near(w32, want, 1e-6);
  }
}

TEST(Orthogonalize, OneAndTwoThreadsGiveTheSameBits) {
  const auto run_with = [](int threads) {
    const ThreadScope scope(threads);
    auto x = normals<float>(200 * 300, 5);
    std::vector<float> scratch(static_cast<std::size_t>(orthogonalize_scratch(200, 300)));
    std::vector<double> partials(static_cast<std::size_t>(norm_pieces(200 * 300)));
    double factor = 0;
    Orthogonalize<float> request{.x = x.data(),
                                 .rows = 200,
                                 .cols = 300,
                                 .quintics = {},
                                 .steps = 5,
                                 .safety = 1,
                                 .floor = 1e-7,
                                 .scratch = scratch.data(),
                                 .partials = partials.data(),
                                 .factor = &factor};
    request.quintics.fill({3.4445, -4.7750, 2.0315});
    run(Cpu{}, request);
    return x;
  };
  EXPECT_EQ(run_with(2), run_with(1));
}

TEST(PowerIteration, FindsTheLargestSingularValue) {
  // diag(3, 2, 1) beside a column of zeros.
  std::vector<float> w(12);
  w[0] = 3;
  w[5] = 2;
  w[10] = 1;
  std::vector<float> v = {1, 1, 1, 1};
  std::vector<float> u(3);
  double sigma = 0;
  for (int round = 0; round < 40; ++round) {
    run(Cpu{}, PowerIteration<float>{w.data(), 3, 4, v.data(), u.data(), &sigma});
  }
  EXPECT_NEAR(sigma, 3, 1e-6);
  EXPECT_NEAR(static_cast<double>(v[0]), 1, 1e-6);
}

}  // namespace
}  // namespace norma::kernels
