#include "norma/kernels/optimizer.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "norma/base/rng.h"
#include "norma/base/threads.h"

namespace norma::kernels {
namespace {

template <class T>
std::vector<T> normals(std::size_t count, std::uint64_t stream) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>(static_cast<float>(normal_at({5, stream}, i)));
  }
  return values;
}

/// The partial sums of one run.
template <class T, class Who>
std::vector<double> partials(Who who, const std::vector<T>& g) {
  const auto count = static_cast<Index>(g.size());
  std::vector<double> sums(static_cast<std::size_t>(norm_pieces(count)), -1);
  run(who, SquaredNorm<T>{g.data(), count, sums.data()});
  return sums;
}

double total(const std::vector<double>& sums) {
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

TEST(SquaredNorm, IsTheSumOfSquares) {
  for (const std::size_t count : {1, 3, 255, 257, 16384, 16385, 100003}) {
    const auto g = normals<float>(count, 1);
    double want = 0;
    for (const float x : g) want += static_cast<double>(x) * static_cast<double>(x);
    EXPECT_NEAR(total(partials(Ref{}, g)), want, 1e-12 * want) << count;
    EXPECT_NEAR(total(partials(Cpu{}, g)), want, 2e-6 * want) << count;
    EXPECT_NEAR(total(partials(Ref{}, normals<double>(count, 1))), want, 1e-12 * want) << count;
  }
}

TEST(SquaredNorm, OneAndTwoThreadsGiveTheSameBits) {
  const auto g = normals<float>(333333, 2);
  const ThreadScope one(1);
  const std::vector<double> alone = partials(Cpu{}, g);
  const ThreadScope two(2);
  EXPECT_EQ(partials(Cpu{}, g), alone);
}

TEST(SquaredNorm, ManySmallEntriesBesideALargeOneAreNotLost) {
  std::vector<float> g(100000, 1e-3f);
  g[0] = 30.0f;
  EXPECT_NEAR(total(partials(Cpu{}, g)), 900 + 99999e-6, 1e-3);
}

// Worked out by hand with 30 digits: lr 0.1, decay 0.1, betas 0.9 and 0.99, eps 1e-3, gradients
// 0.5, -0.25, 1 times 0.5.
template <class T, class Who>
void check_by_hand(Who who, double limit) {
  const double gradients[] = {0.5, -0.25, 1};
  const double want_w[] = {0.89039840637450199, 0.85495894235271616, 0.78096538482784704};
  const double want_m[] = {0.025, 0.01, 0.059};
  const double want_v[] = {0.000625, 0.000775, 0.00326725};
  T w = 1;
  T m = 0;
  T v = 0;
  for (Index t = 1; t <= 3; ++t) {
    const T g = static_cast<T>(gradients[t - 1]);
    run(who,
        AdamWStep<T>{.w = &w,
                     .g = &g,
                     .m = &m,
                     .v = &v,
                     .count = 1,
                     .t = t,
                     .grad_scale = 0.5,
                     .lr = 0.1,
                     .decay = 0.1,
                     .beta1 = 0.9,
                     .beta2 = 0.99,
                     .eps = 1e-3});
    EXPECT_NEAR(static_cast<double>(w), want_w[t - 1], limit) << "step " << t;
    EXPECT_NEAR(static_cast<double>(m), want_m[t - 1], limit) << "step " << t;
    EXPECT_NEAR(static_cast<double>(v), want_v[t - 1], limit) << "step " << t;
  }
}

TEST(AdamWStep, ThreeStepsByHand) {
  check_by_hand<double>(Ref{}, 1e-15);
  check_by_hand<float>(Ref{}, 2e-7);
  check_by_hand<float>(Cpu{}, 2e-7);
}

template <class T>
struct State {
  explicit State(std::size_t count) : w(normals<T>(count, 3)), m(count, 0), v(count, 0) {}
  std::vector<T> w, m, v;
};

template <class T, class Who>
State<T> three_steps(Who who, std::size_t count) {
  State<T> state(count);
  for (Index t = 1; t <= 3; ++t) {
    const std::vector<T> g = normals<T>(count, 10 + static_cast<std::uint64_t>(t));
    run(who,
        AdamWStep<T>{.w = state.w.data(),
                     .g = g.data(),
                     .m = state.m.data(),
                     .v = state.v.data(),
                     .count = static_cast<Index>(count),
                     .t = t,
                     .grad_scale = 0.7,
                     .lr = 0.03,
                     .decay = 0.2,
                     .beta1 = 0.9,
                     .beta2 = 0.95,
                     .eps = 1e-8});
  }
  return state;
}

TEST(AdamWStep, F32FollowsTheReferenceInDouble) {
  for (const std::size_t count : {1, 17, 16385, 50000}) {
    const State<double> want = three_steps<double>(Ref{}, count);
    const State<float> got = three_steps<float>(Cpu{}, count);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_NEAR(static_cast<double>(got.w[i]), want.w[i], 2e-6 * (std::abs(want.w[i]) + 0.1));
      ASSERT_NEAR(static_cast<double>(got.m[i]), want.m[i], 2e-6 * (std::abs(want.m[i]) + 0.1));
      ASSERT_NEAR(static_cast<double>(got.v[i]), want.v[i], 2e-6 * (std::abs(want.v[i]) + 0.1));
    }
  }
}

TEST(AdamWStep, OneAndTwoThreadsGiveTheSameBits) {
  const ThreadScope one(1);
  const State<float> alone = three_steps<float>(Cpu{}, 70001);
  const ThreadScope two(2);
  const State<float> both = three_steps<float>(Cpu{}, 70001);
  EXPECT_EQ(both.w, alone.w);
  EXPECT_EQ(both.m, alone.m);
  EXPECT_EQ(both.v, alone.v);
}

}  // namespace
}  // namespace norma::kernels
