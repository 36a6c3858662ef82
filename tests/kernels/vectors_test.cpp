#include "norma/kernels/vectors.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "norma/base/rng.h"
#include "norma/base/threads.h"
#include "norma/kernels/parallel.h"

namespace norma::kernels {
namespace {

template <class T>
std::vector<T> normals(Index count, std::uint64_t stream, double spread = 1) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<T>(static_cast<float>(spread * normal_at({6, stream}, i)));
  }
  return values;
}

template <class T, class Who>
void make_unit(Who who, std::vector<T>& w, const VectorLayout& layout) {
  std::vector<T> partials(static_cast<std::size_t>(RowChunks(layout.rows).count * layout.cols));
  run(who,
      KeepVectors<T>{.w = w.data(),
                     .rows = layout.rows,
                     .cols = layout.cols,
                     .keep = layout.columns ? Keep::unit_columns : Keep::unit_rows,
                     .partials = partials.data()});
}

void expect_near(const std::vector<float>& got, const std::vector<double>& want, double limit) {
  ASSERT_EQ(got.size(), want.size());
  double rms = 0;
  for (const double x : want) rms += x * x;
  rms = std::sqrt(rms / static_cast<double>(want.size()));
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(got[i]), want[i], limit * (std::abs(want[i]) + rms)) << i;
  }
}

const std::vector<VectorLayout> kLayouts = {{5, 33, false},
                                            {200, 130, false},
                                            {5, 33, true},
                                            {200, 130, true},
                                            {3, 1, false},
                                            {1, 3, true}};

TEST(KeepVectors, FollowsTheReferenceAndLeavesZeros) {
  for (const VectorLayout& layout : kLayouts) {
    const Index count = layout.rows * layout.cols;
    auto got = normals<float>(count, 1);
    auto want = normals<double>(count, 1);
    if (layout.rows > 3 && !layout.columns) {
      std::fill(got.begin(), got.begin() + layout.cols, 0.0f);
      std::fill(want.begin(), want.begin() + layout.cols, 0.0);
    }
    make_unit(Cpu{}, got, layout);
    make_unit(Ref{}, want, layout);
    expect_near(got, want, 1e-6);
  }
}

TEST(TangentProject, TakesTheRadialPartAway) {
  for (const VectorLayout& layout : kLayouts) {
    const Index count = layout.rows * layout.cols;
    const auto w = normals<float>(count, 1);
    const auto exact_w = normals<double>(count, 1);
    auto got = normals<float>(count, 2);
    auto want = normals<double>(count, 2);
    run(Cpu{}, TangentProject<float>{w.data(), got.data(), layout});
    run(Ref{}, TangentProject<double>{exact_w.data(), want.data(), layout});
    if (layout.length() > 1) expect_near(got, want, 5e-6);
    for (Index k = 0; k < layout.vectors(); ++k) {
      double dot = 0;
      for (Index i = 0; i < layout.length(); ++i) {
        const auto at =
            static_cast<std::size_t>(layout.columns ? i * layout.cols + k : k * layout.cols + i);
        dot += exact_w[at] * want[at];
      }
      EXPECT_NEAR(dot, 0, 1e-12);
    }
  }
}

TEST(AngularCap, TurnsAtMostByTheCapAndNormalizesBelowIt) {
  for (const VectorLayout& layout : {VectorLayout{6, 40, false}, VectorLayout{40, 70, true}}) {
    const Index count = layout.rows * layout.cols;
    auto before = normals<double>(count, 1);
    make_unit(Ref{}, before, layout);
    auto moved = before;
    const auto noise = normals<double>(count, 2, 0.02);
    // Odd vectors move little, even ones far.
    for (std::size_t i = 0; i < moved.size(); ++i) {
      const auto at = static_cast<Index>(i);
      const Index k = layout.columns ? at % layout.cols : at / layout.cols;
      moved[i] += k % 2 == 0 ? 10 * noise[i] : 0.1 * noise[i];
    }
    auto want = moved;
    const double cap = 0.1;
    run(Ref{}, AngularCap<double>{before.data(), want.data(), layout, cap});
    std::vector<double> angles(static_cast<std::size_t>(layout.vectors()));
    std::vector<double> free(angles.size());
    run(Ref{}, VectorAngles<double>{before.data(), want.data(), layout, angles.data()});
    run(Ref{}, VectorAngles<double>{before.data(), moved.data(), layout, free.data()});
    for (std::size_t k = 0; k < angles.size(); ++k) {
      EXPECT_NEAR(angles[k], std::min(free[k], cap), 1e-12);
      EXPECT_EQ(free[k] > cap, k % 2 == 0);
    }
    double worst = 1;
    run(Ref{}, UnitError<double>{want.data(), layout, &worst});
    EXPECT_LE(worst, 1e-12);
    const std::vector<float> before32(before.begin(), before.end());
    std::vector<float> got(moved.begin(), moved.end());
    run(Cpu{}, AngularCap<float>{before32.data(), got.data(), layout, cap});
    expect_near(got, want, 5e-6);
  }
}

template <class T>
struct Sphere {
  std::vector<T> w, m, v;
};

template <class T, class Who>
Sphere<T> sphere_steps(
    Who who, const VectorLayout& layout, bool geodesic, bool parallel, int steps = 4) {
  const Index count = layout.rows * layout.cols;
  Sphere<T> s{normals<T>(count, 1),
              std::vector<T>(static_cast<std::size_t>(count)),
              std::vector<T>(static_cast<std::size_t>(layout.vectors()))};
  for (int t = 1; t <= steps; ++t) {
    const auto g = normals<T>(count, 20 + static_cast<std::uint64_t>(t));
    const SphereRule rule{
        .grad_scale = 0.6, .lr = 0.2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .t = t};
    run(who,
        SphereAdam<T>{.w = s.w.data(),
                      .g = g.data(),
                      .m = s.m.data(),
                      .v = s.v.data(),
                      .layout = layout,
                      .rule = &rule,
                      .geodesic = geodesic,
                      .parallel = parallel,
                      .lazy = false});
  }
  return s;
}

TEST(SphereAdam, F32FollowsTheReferenceInDouble) {
  for (const VectorLayout& layout : {VectorLayout{5, 33, false},
                                     VectorLayout{200, 130, false},
                                     VectorLayout{5, 33, true},
                                     VectorLayout{200, 130, true}}) {
    for (const bool geodesic : {false, true}) {
      for (const bool parallel : {false, true}) {
        const auto want = sphere_steps<double>(Ref{}, layout, geodesic, parallel);
        const auto got = sphere_steps<float>(Cpu{}, layout, geodesic, parallel);
        expect_near(got.w, want.w, 5e-6);
        expect_near(got.m, want.m, 5e-6);
        expect_near(got.v, want.v, 5e-6);
      }
    }
  }
}

TEST(SphereAdam, RowsAndColumnsOfTheTransposedAgree) {
  const auto rows = sphere_steps<double>(Ref{}, {7, 11, false}, true, true, 1);
  // The transposed matrix with transposed gradient: fill by hand.
  std::vector<double> w(77);
  std::vector<double> g(77);
  std::vector<double> m(77);
  std::vector<double> v(7);
  const auto w0 = normals<double>(77, 1);
  const auto g0 = normals<double>(77, 21);
  for (std::size_t r = 0; r < 7; ++r) {
    for (std::size_t c = 0; c < 11; ++c) {
      w[c * 7 + r] = w0[r * 11 + c];
      g[c * 7 + r] = g0[r * 11 + c];
    }
  }
  const SphereRule rule{0.6, 0.2, 0.9, 0.95, 1e-8, 1};
  run(Ref{},
      SphereAdam<double>{
          w.data(), g.data(), m.data(), v.data(), {11, 7, true}, &rule, true, true, false});
  for (std::size_t r = 0; r < 7; ++r) {
    for (std::size_t c = 0; c < 11; ++c) EXPECT_NEAR(w[c * 7 + r], rows.w[r * 11 + c], 1e-14);
    EXPECT_NEAR(v[r], rows.v[r], 1e-14);
  }
}

TEST(SphereAdam, OneAndTwoThreadsGiveTheSameBits) {
  for (const VectorLayout& layout : {VectorLayout{300, 257, false}, VectorLayout{300, 257, true}}) {
    const ThreadScope one(1);
    const auto alone = sphere_steps<float>(Cpu{}, layout, true, true);
    const ThreadScope two(2);
    const auto both = sphere_steps<float>(Cpu{}, layout, true, true);
    EXPECT_EQ(both.w, alone.w);
    EXPECT_EQ(both.m, alone.m);
    EXPECT_EQ(both.v, alone.v);
  }
}

TEST(NormalizeDirection, FollowsTheReference) {
  for (const VectorLayout& layout : kLayouts) {
    const Index count = layout.rows * layout.cols;
    auto got = normals<float>(count, 1);
    auto want = normals<double>(count, 1);
    std::vector<float> nu32(static_cast<std::size_t>(layout.vectors()), 0.5f);
    std::vector<double> nu(nu32.size(), 0.5);
    run(Cpu{}, NormalizeDirection<float>{got.data(), nu32.data(), layout, 0.9});
    run(Ref{}, NormalizeDirection<double>{want.data(), nu.data(), layout, 0.9});
    expect_near(got, want, 2e-6);
    expect_near(nu32, nu, 2e-6);
  }
}

TEST(AdaptiveClip, ShortensOnlyRowsThatAreTooLong) {
  const VectorLayout layout{3, 2, false};
  const std::vector<double> w = {3, 4, 0, 0, 0.6, 0.8};
  const std::vector<double> start = {30, 40, 3, 4, 0.003, 0.004};
  for (const bool fast : {false, true}) {
    std::vector<double> g = start;
    std::vector<double> clipped(3);
    if (fast) {
      const std::vector<float> w32(w.begin(), w.end());
      std::vector<float> g32(g.begin(), g.end());
      std::vector<float> clipped32(3);
      run(Cpu{}, AdaptiveClip<float>{w32.data(), g32.data(), layout, 0.01, clipped32.data()});
      g.assign(g32.begin(), g32.end());
      clipped.assign(clipped32.begin(), clipped32.end());
    } else {
      run(Ref{}, AdaptiveClip<double>{w.data(), g.data(), layout, 0.01, clipped.data()});
    }
    // |w| = 5: bound 0.05; |w| = 0: bound 1e-5; |w| = 1: bound 0.01, and 0.005 is below it.
    const double want[] = {0.03, 0.04, 0.6e-5, 0.8e-5, 0.003, 0.004};
    for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(g[i], want[i], 1e-6 * want[i]);
    EXPECT_EQ(clipped, (std::vector<double>{1, 1, 0}));
  }
}

TEST(VectorAngles, KnowsAQuarterTurnAndAHalfTurn) {
  const std::vector<float> before = {1, 0, 2, 0, 3, 0};
  const std::vector<float> after = {0, 5, -1, 0, 7, 0};
  std::vector<double> angles(3, -1);
  run(Ref{}, VectorAngles<float>{before.data(), after.data(), {3, 2, false}, angles.data()});
  EXPECT_NEAR(angles[0], std::acos(-1) / 2, 1e-12);
  EXPECT_NEAR(angles[1], std::acos(-1), 1e-12);
  EXPECT_NEAR(angles[2], 0, 1e-12);
}

TEST(UnitError, IsTheWorstAndNaNIsWorse) {
  std::vector<float> w = {1, 0, 0, 0.75f, 0, 1.125f};
  double worst = 0;
  run(Ref{}, UnitError<float>{w.data(), {3, 2, false}, &worst});
  EXPECT_DOUBLE_EQ(worst, 0.25);
  w[0] = std::nanf("");
  run(Ref{}, UnitError<float>{w.data(), {3, 2, false}, &worst});
  EXPECT_TRUE(std::isnan(worst));
}

}  // namespace
}  // namespace norma::kernels
