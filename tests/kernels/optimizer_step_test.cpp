#include "norma/kernels/optimizer_step.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "norma/base/rng.h"
#include "norma/base/threads.h"
#include "norma/kernels/optimizer.h"
#include "norma/kernels/parallel.h"

namespace norma::kernels {
namespace {

template <class T>
std::vector<T> normals(Index count, std::uint64_t stream) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<T>(static_cast<float>(normal_at({5, stream}, i)));
  }
  return values;
}

// Worked out by hand with 30 digits: lr 0.1, decay 0.1, betas 0.9 and 0.99, eps 1e-3, gradients
// 0.5, -0.25, 1 times 0.5.
template <class T, class Who>
void check_adam_by_hand(Who who, double limit) {
  const double gradients[] = {0.5, -0.25, 1};
  const double want_w[] = {0.89039840637450199, 0.85495894235271616, 0.78096538482784704};
  const double want_m[] = {0.025, 0.01, 0.059};
  const double want_v[] = {0.000625, 0.000775, 0.00326725};
  T w = 1;
  T m = 0;
  T v = 0;
  for (Index t = 1; t <= 3; ++t) {
    const T g = static_cast<T>(gradients[t - 1]);
    const AdamRule rule{.grad_scale = 0.5,
                        .lr = 0.1,
                        .decay = 0.1 * 0.1,
                        .coupled = 0,
                        .beta1 = 0.9,
                        .beta2 = 0.99,
                        .eps = 1e-3,
                        .t = t};
    run(who,
        ElementStep<T, AdamRule>{.w = &w,
                                 .g = &g,
                                 .first = &m,
                                 .second = &v,
                                 .rows = 1,
                                 .cols = 1,
                                 .rule = &rule,
                                 .keep = Keep::nothing,
                                 .lazy_rows = false,
                                 .partials = nullptr});
    EXPECT_NEAR(static_cast<double>(w), want_w[t - 1], limit) << "step " << t;
    EXPECT_NEAR(static_cast<double>(m), want_m[t - 1], limit) << "step " << t;
    EXPECT_NEAR(static_cast<double>(v), want_v[t - 1], limit) << "step " << t;
  }
}

TEST(ElementStep, ThreeStepsOfAdamByHand) {
  check_adam_by_hand<double>(Ref{}, 1e-15);
  check_adam_by_hand<float>(Ref{}, 2e-7);
  check_adam_by_hand<float>(Cpu{}, 2e-7);
}

// The rules of the tests, at step t.
AdamRule adam(Index t) { return {0.7, 0.03, 0.006, 0.05, 0.9, 0.95, 1e-8, t}; }
struct SgdCase {
  using Rule = SgdRule;
  static constexpr int kStates = 1;
  static Rule at(Index t) { return {0.7, 0.1, 0.01, 0.02, 0.9, 0.2, false, t == 1, false, 1}; }
};
struct NesterovCase {
  using Rule = SgdRule;
  static constexpr int kStates = 1;
  static Rule at(Index t) { return {0.7, 0.1, 0.01, 0, 0.8, 0, true, t == 1, true, 1.4}; }
};
struct PlainSgdCase {
  using Rule = SgdRule;
  static constexpr int kStates = 0;
  static Rule at(Index t) { return {0.7, 0.1, 0.01, 0, 0, 0, false, t == 1, false, 1}; }
};
struct AdamCase {
  using Rule = AdamRule;
  static constexpr int kStates = 2;
  static Rule at(Index t) { return adam(t); }
};
struct GatedCase {
  using Rule = GatedAdamRule;
  static constexpr int kStates = 2;
  static Rule at(Index t) { return {adam(t), 0.5, 0.2}; }
};
struct LionCase {
  using Rule = LionRule;
  static constexpr int kStates = 1;
  static Rule at(Index) { return {0.7, 0.03, 0.006, 0.9, 0.99}; }
};
struct AdagradCase {
  using Rule = AdagradRule;
  static constexpr int kStates = 1;
  static Rule at(Index) { return {0.7, 0.03, 0.05, 1e-10}; }
};
struct RmspropCase {
  using Rule = RmspropRule;
  static constexpr int kStates = 2;
  static Rule at(Index) { return {0.7, 0.03, 0.05, 0.9, 0.6, 1e-4}; }
};
struct SignCase {
  using Rule = SignRule;
  static constexpr int kStates = 1;
  static Rule at(Index) { return {0.7, 0.03, 0.006, 0.5}; }
};

template <class T>
struct State {
  std::vector<T> w, first, second;
};

struct Request {
  Index rows = 1;
  Index cols = 1;
  Keep keep = Keep::nothing;
  bool lazy = false;
};

template <class T, class Case, class Who>
State<T> three_steps(Who who, Request request) {
  const Index count = request.rows * request.cols;
  const auto size = static_cast<std::size_t>(count);
  State<T> state{normals<T>(count, 3),
                 std::vector<T>(Case::kStates > 0 ? size : 0),
                 std::vector<T>(Case::kStates > 1 ? size : 0)};
  std::vector<T> partials(static_cast<std::size_t>(RowChunks(request.rows).count * request.cols));
  for (Index t = 1; t <= 3; ++t) {
    std::vector<T> g = normals<T>(count, 10 + static_cast<std::uint64_t>(t));
    // Every third row of a matrix has no gradient.
    for (Index r = 0; r < request.rows && request.rows > 1; r += 3) {
      for (Index c = 0; c < request.cols; ++c) {
        g[static_cast<std::size_t>(r * request.cols + c)] = 0;
      }
    }
    const typename Case::Rule rule = Case::at(t);
    run(who,
        ElementStep<T, typename Case::Rule>{
            .w = state.w.data(),
            .g = g.data(),
            .first = state.first.empty() ? nullptr : state.first.data(),
            .second = state.second.empty() ? nullptr : state.second.data(),
            .rows = request.rows,
            .cols = request.cols,
            .rule = &rule,
            .keep = request.keep,
            .lazy_rows = request.lazy,
            .partials = partials.data()});
  }
  return state;
}

void expect_near(const std::vector<float>& got,
                 const std::vector<double>& want,
                 const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  double rms = 0;
  for (const double x : want) rms += x * x;
  rms = std::sqrt(rms / static_cast<double>(want.size()));
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(got[i]), want[i], 1e-5 * (std::abs(want[i]) + rms))
        << what << " at " << i;
  }
}

template <class Case>
class StepTest : public testing::Test {};
using Cases = testing::Types<SgdCase,
                             NesterovCase,
                             PlainSgdCase,
                             AdamCase,
                             GatedCase,
                             LionCase,
                             AdagradCase,
                             RmspropCase,
                             SignCase>;
TYPED_TEST_SUITE(StepTest, Cases);

TYPED_TEST(StepTest, F32FollowsTheReferenceInDouble) {
  for (const Request& request : {Request{1, 1},
                                 Request{1, 17},
                                 Request{1, 16385},
                                 Request{1, 50000},
                                 Request{7, 33, Keep::unit_rows},
                                 Request{300, 70, Keep::unit_rows},
                                 Request{7, 33, Keep::unit_columns},
                                 Request{300, 70, Keep::unit_columns},
                                 Request{40, 33, Keep::short_rows},
                                 Request{40, 33, Keep::short_columns},
                                 Request{40, 33, Keep::nothing, true},
                                 Request{40, 33, Keep::unit_rows, true},
                                 Request{40, 33, Keep::unit_columns, true}}) {
    const auto want = three_steps<double, TypeParam>(Ref{}, request);
    const auto got = three_steps<float, TypeParam>(Cpu{}, request);
    expect_near(got.w, want.w, "w");
    expect_near(got.first, want.first, "first state");
    expect_near(got.second, want.second, "second state");
  }
}

TYPED_TEST(StepTest, OneAndTwoThreadsGiveTheSameBits) {
  for (const Request& request : {Request{1, 70001},
                                 Request{300, 257, Keep::unit_rows},
                                 Request{300, 257, Keep::unit_columns}}) {
    const ThreadScope one(1);
    const auto alone = three_steps<float, TypeParam>(Cpu{}, request);
    const ThreadScope two(2);
    const auto both = three_steps<float, TypeParam>(Cpu{}, request);
    EXPECT_EQ(both.w, alone.w);
    EXPECT_EQ(both.first, alone.first);
    EXPECT_EQ(both.second, alone.second);
  }
}

TYPED_TEST(StepTest, RowsWithoutGradientRestWhenLazy) {
  const Request request{9, 20, Keep::nothing, true};
  const auto state = three_steps<float, TypeParam>(Cpu{}, request);
  const auto start = normals<float>(9 * 20, 3);
  for (std::size_t i = 0; i < start.size(); ++i) {
    const bool rests = i / 20 % 3 == 0;
    EXPECT_EQ(state.w[i] == start[i], rests) << i;
    if (rests && !state.first.empty()) {
      EXPECT_EQ(state.first[i], 0.0f);
    }
  }
}

TEST(ElementStep, UnitVectorsAreUnitToOneInAMillion) {
  for (const Keep keep : {Keep::unit_rows, Keep::unit_columns}) {
    for (const Request& request : {Request{2048, 64, keep}, Request{64, 2048, keep}}) {
      const auto state = three_steps<float, AdamCase>(Cpu{}, request);
      const bool columns = keep == Keep::unit_columns;
      for (Index k = 0; k < (columns ? request.cols : request.rows); ++k) {
        double sum = 0;
        for (Index i = 0; i < (columns ? request.rows : request.cols); ++i) {
          const auto at = columns ? i * request.cols + k : k * request.cols + i;
          const auto w = static_cast<double>(state.w[static_cast<std::size_t>(at)]);
          sum += w * w;
        }
        ASSERT_NEAR(std::sqrt(sum), 1, 5e-7) << k;
      }
    }
  }
}

TEST(ElementStep, NaNIsNotHidden) {
  std::vector<float> w = {1, 1};
  const std::vector<float> g = {std::numeric_limits<float>::quiet_NaN(), 1};
  std::vector<float> b = {0, 0};
  const SgdRule rule = SgdCase::at(1);
  run(Cpu{},
      ElementStep<float, SgdRule>{.w = w.data(),
                                  .g = g.data(),
                                  .first = b.data(),
                                  .second = nullptr,
                                  .rows = 1,
                                  .cols = 2,
                                  .rule = &rule,
                                  .keep = Keep::nothing,
                                  .lazy_rows = true,
                                  .partials = nullptr});
  EXPECT_TRUE(std::isnan(w[0]));
  EXPECT_FALSE(std::isnan(w[1]));
}

TEST(SgdAgreement, CountsWhereStepAndGradientAgree) {
  const Index count = 40000;
  const auto w = normals<float>(count, 1);
  const auto g = normals<float>(count, 2);
  const auto b = normals<float>(count, 3);
  const SgdRule rule{.grad_scale = 0.5,
                     .lr = 0.1,
                     .decay = 0,
                     .coupled = 0,
                     .momentum = 0.9,
                     .damping = 0,
                     .nesterov = false,
                     .first = false,
                     .caution = true,
                     .caution_factor = 1};
  double want = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    want += (0.9 * static_cast<double>(b[i]) + 0.5 * static_cast<double>(g[i])) *
                        static_cast<double>(g[i]) >
                    0
                ? 1
                : 0;
  }
  for (const bool fast : {false, true}) {
    std::vector<double> partials(static_cast<std::size_t>(norm_pieces(count)));
    const SgdAgreement<float> request{w.data(), g.data(), b.data(), count, &rule, partials.data()};
    if (fast) {
      run(Cpu{}, request);
    } else {
      run(Ref{}, request);
    }
    double got = 0;
    for (const double part : partials) got += part;
    EXPECT_EQ(got, want);
  }
}

}  // namespace
}  // namespace norma::kernels
