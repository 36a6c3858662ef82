// Every elementwise optimizer against a plain loop in double, written from the formulas.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "norma/optim/optimizer.h"
#include "tests/optim/zoo.h"

namespace norma {
namespace {

constexpr double kLr = 0.05;
constexpr double kScale = 0.8;  // the clipping factor
constexpr int kSteps = 5;

double sign(double x) { return x > 0 ? 1.0 : (x < 0 ? -1.0 : 0.0); }

/// The numbers of one element, as the loops see them.
struct Cell {
  double w;
  double g;  // clipped
  double a = 0;
  double b = 0;
};
struct Now {
  double lr;
  double wd;
  int t;
};
using Loop = std::function<void(Cell&, const Now&)>;

struct Case {
  std::string name;
  OptimSpec spec;
  Loop loop;
};

std::ostream& operator<<(std::ostream& out, const Case& value) { return out << value.name; }

void adam_moments(Cell& x, double g, double b1, double b2) {
  x.a = b1 * x.a + (1 - b1) * g;
  x.b = b2 * x.b + (1 - b2) * g * g;
}
double corrected_root(const Cell& x, double b2, int t) {
  return std::sqrt(x.b) / std::sqrt(1 - std::pow(b2, t));
}

std::vector<Case> cases() {
  return {
      {"sgdw",
       {.name = OptimName::sgdw, .weight_decay = 0.3, .momentum = 0.9, .damping = 0.25},
       [](Cell& x, const Now& n) {
         x.w *= 1 - n.lr * n.wd;
         x.a = n.t == 1 ? x.g : 0.9 * x.a + 0.75 * x.g;
         x.w -= n.lr * x.a;
       }},
      {"sgdw_nesterov",
       {.name = OptimName::sgdw, .weight_decay = 0.3, .momentum = 0.8, .nesterov = true},
       [](Cell& x, const Now& n) {
         x.w *= 1 - n.lr * n.wd;
         x.a = n.t == 1 ? x.g : 0.8 * x.a + x.g;
         x.w -= n.lr * (x.g + 0.8 * x.a);
       }},
      {"sgdw_corrected",
       {.name = OptimName::sgdw, .lr = 0.2, .weight_decay = 0.3, .corrected_decay = true},
       [](Cell& x, const Now& n) {
         // The peak of a slow parameter is as much lower as its learning rate.
         x.w *= 1 - n.lr * (kLr / 0.2) * n.wd;
         x.a = n.t == 1 ? x.g : 0.9 * x.a + x.g;
         x.w -= n.lr * x.a;
       }},
      {"sgdw_plain",
       {.name = OptimName::sgdw, .weight_decay = 0.3, .momentum = 0},
       [](Cell& x, const Now& n) { x.w = x.w * (1 - n.lr * n.wd) - n.lr * x.g; }},
      {"sgd",
       {.name = OptimName::sgd, .weight_decay = 0.3},
       [](Cell& x, const Now& n) {
         const double g = x.g + n.wd * x.w;
         x.a = n.t == 1 ? g : 0.9 * x.a + g;
         x.w -= n.lr * x.a;
       }},
      {"adamw",
       {.name = OptimName::adamw, .weight_decay = 0.2, .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-3},
       [](Cell& x, const Now& n) {
         x.w *= 1 - n.lr * n.wd;
         adam_moments(x, x.g, 0.8, 0.9);
         x.w -= n.lr / (1 - std::pow(0.8, n.t)) * x.a / (corrected_root(x, 0.9, n.t) + 1e-3);
       }},
      {"adam",
       {.name = OptimName::adam, .weight_decay = 0.2},
       [](Cell& x, const Now& n) {
         adam_moments(x, x.g + n.wd * x.w, 0.9, 0.999);
         x.w -= n.lr / (1 - std::pow(0.9, n.t)) * x.a / (corrected_root(x, 0.999, n.t) + 1e-8);
       }},
      {"gated_adamw",
       {.name = OptimName::gated_adamw, .weight_decay = 0.2, .gate = 0.5, .eps_gate = 0.3},
       [](Cell& x, const Now& n) {
         adam_moments(x, x.g, 0.9, 0.999);
         const double d = corrected_root(x, 0.999, n.t) + 1e-12;
         const double gate = 1 / (1 + std::exp(-0.5 * std::log(d / 0.3)));
         x.w -= n.lr * (gate * x.a / (1 - std::pow(0.9, n.t)) / d + n.wd * x.w);
       }},
      {"lion",
       {.name = OptimName::lion, .weight_decay = 0.2},
       [](Cell& x, const Now& n) {
         x.w *= 1 - n.lr * n.wd;
         x.w -= n.lr * sign(0.9 * x.a + (1 - 0.9) * x.g);
         x.a = 0.99 * x.a + (1 - 0.99) * x.g;
       }},
      {"adagrad",
       {.name = OptimName::adagrad, .weight_decay = 0.2, .lr_decay = 0.3},
       [](Cell& x, const Now& n) {
         const double g = x.g + n.wd * x.w;
         x.a += g * g;
         x.w -= n.lr / (1 + (n.t - 1) * 0.3) * g / (std::sqrt(x.a) + 1e-10);
       }},
      {"rmsprop",
       {.name = OptimName::rmsprop, .weight_decay = 0.2, .beta2 = 0.9},
       [](Cell& x, const Now& n) {
         const double g = x.g + n.wd * x.w;
         x.a = 0.9 * x.a + (1 - 0.9) * g * g;
         x.w -= n.lr * g / (std::sqrt(x.a) + 1e-8);
       }},
      {"rmsprop_momentum",
       {.name = OptimName::rmsprop, .momentum = 0.7},
       [](Cell& x, const Now& n) {
         x.a = 0.99 * x.a + (1 - 0.99) * x.g * x.g;
         x.b = 0.7 * x.b + x.g / (std::sqrt(x.a) + 1e-8);
         x.w -= n.lr * x.b;
       }},
      {"signsgd",
       {.name = OptimName::signsgd, .weight_decay = 0.2},
       [](Cell& x, const Now& n) { x.w = x.w * (1 - n.lr * n.wd) - n.lr * sign(x.g); }},
      {"signsgd_momentum",
       {.name = OptimName::signsgd, .momentum = 0.6},
       [](Cell& x, const Now& n) {
         x.a = 0.6 * x.a + (1 - 0.6) * x.g;
         x.w -= n.lr * sign(x.a);
       }},
  };
}

class Elementwise : public testing::TestWithParam<std::tuple<DType, Case>> {};
INSTANTIATE_TEST_SUITE_P(All,
                         Elementwise,
                         testing::Combine(testing::Values(DType::f32, DType::f64),
                                          testing::ValuesIn(cases())),
                         [](const auto& chosen) {
                           return std::get<1>(chosen.param).name + "_" +
                                  std::string(name_of(std::get<0>(chosen.param)));
                         });

TEST_P(Elementwise, SeveralStepsFollowTheFormula) {
  const auto& [dtype, one] = GetParam();
  test::Zoo zoo(dtype);
  Optimizer optimizer(zoo.params, one.spec);
  const double wd = resolved(one.spec).weight_decay;
  std::vector<std::vector<Cell>> cells;
  for (const Param& param : zoo.params.params()) {
    cells.emplace_back();
    for (const double w : zoo.values(param.name)) cells.back().push_back({w, 0});
  }
  for (int t = 1; t <= kSteps; ++t) {
    zoo.draw(static_cast<std::uint64_t>(t));
    std::size_t index = 0;
    for (const Param& param : zoo.params.params()) {
      const std::vector<double> grads = zoo.grads(param.name);
      std::vector<Cell>& own = cells[index++];
      if (param.frozen) continue;
      for (std::size_t i = 0; i < own.size(); ++i) {
        own[i].g = kScale * grads[i];
        one.loop(own[i], {kLr * param.tags.lr_scale, param.tags.decay ? wd : 0, t});
      }
    }
    optimizer.step(zoo.params, {.lr = kLr, .grad_scale = kScale});
  }
  std::size_t index = 0;
  for (const Param& param : zoo.params.params()) {
    const std::vector<double> got = zoo.values(param.name);
    const std::vector<Cell>& want = cells[index++];
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], want[i].w, test::limit_of(dtype) * (std::abs(want[i].w) + 0.3))
          << param.name << " at " << i;
    }
  }
}

TEST(Caution, OnlyAgreeingElementsMoveAndTheirShareIsMadeUpFor) {
  for (const bool nesterov : {false, true}) {
    test::Zoo zoo(DType::f64);
    Optimizer optimizer(zoo.params,
                        {.name = OptimName::sgdw, .nesterov = nesterov, .caution = true});
    std::vector<double> w = zoo.values("up");
    std::vector<double> b(w.size());
    for (int t = 1; t <= 3; ++t) {
      zoo.draw(static_cast<std::uint64_t>(t));
      const std::vector<double> g = zoo.grads("up");
      std::vector<double> step(w.size());
      double agreeing = 0;
      for (std::size_t i = 0; i < w.size(); ++i) {
        b[i] = t == 1 ? g[i] : 0.9 * b[i] + g[i];
        step[i] = nesterov ? g[i] + 0.9 * b[i] : b[i];
        agreeing += step[i] * g[i] > 0 ? 1 : 0;
      }
      const double share = std::max(agreeing / static_cast<double>(w.size()), 1e-3);
      for (std::size_t i = 0; i < w.size(); ++i) {
        if (step[i] * g[i] > 0) w[i] -= 0.1 * step[i] / share;
      }
      optimizer.step(zoo.params, {.lr = 0.1});
      if (t == 3) {
        EXPECT_LT(share, 0.99);
      }
    }
    const std::vector<double> got = zoo.values("up");
    for (std::size_t i = 0; i < w.size(); ++i) ASSERT_NEAR(got[i], w[i], 1e-12) << i;
  }
}

TEST(Lars, TheTrustRatioIsTakenTensorByTensor) {
  for (const std::string name : {"up", "gain"}) {
    SCOPED_TRACE(name);
    test::Zoo zoo(DType::f64);
    Optimizer optimizer(zoo.params, {.name = OptimName::lars, .weight_decay = 0.1, .trust = 0.02});
    std::vector<double> w = zoo.values(name);
    std::vector<double> b(w.size());
    for (int t = 1; t <= 3; ++t) {
      zoo.draw(static_cast<std::uint64_t>(t));
      const std::vector<double> g = zoo.grads(name);
      double ww = 0;
      double gg = 0;
      for (std::size_t i = 0; i < w.size(); ++i) {
        ww += w[i] * w[i];
        gg += 0.25 * g[i] * g[i];
      }
      const double wd = name == "up" ? 0.1 : 0;
      const double ratio =
          name == "up" ? 0.02 * std::sqrt(ww) / (std::sqrt(gg) + wd * std::sqrt(ww) + 1e-8) : 1;
      for (std::size_t i = 0; i < w.size(); ++i) {
        const double scaled = ratio * (0.5 * g[i] + wd * w[i]);
        b[i] = t == 1 ? scaled : 0.9 * b[i] + scaled;
        w[i] -= 0.3 * b[i];
      }
      optimizer.step(zoo.params, {.lr = 0.3, .grad_scale = 0.5});
    }
    const std::vector<double> got = zoo.values(name);
    for (std::size_t i = 0; i < w.size(); ++i) ASSERT_NEAR(got[i], w[i], 1e-12) << i;
  }
}

TEST(LearningRates, FactorsOfClassesMultiplyTheTags) {
  test::Zoo zoo(DType::f64);
  Optimizer optimizer(zoo.params,
                      {.name = OptimName::signsgd,
                       .lr_embedding = 2,
                       .lr_hidden = 3,
                       .lr_head = 5,
                       .lr_scale = 7,
                       .lr_gain = 11});
  const auto before = [&] {
    std::vector<std::vector<double>> all;
    for (const Param& param : zoo.params.params()) all.push_back(zoo.values(param.name));
    return all;
  }();
  zoo.draw(1);
  optimizer.step(zoo.params, {.lr = 0.01});
  const double want[] = {0.02, 0.11, 0.07 * 0.25, 0.03, 0, 0.03, 0.03, 0.05};
  std::size_t index = 0;
  for (const Param& param : zoo.params.params()) {
    const std::vector<double> now = zoo.values(param.name);
    EXPECT_NEAR(std::abs(now[3] - before[index][3]), want[index], 1e-12) << param.name;
    ++index;
  }
}

TEST(LazyRows, RowsOfTablesWithoutGradientRest) {
  for (const OptimName name : {OptimName::adamw, OptimName::riemannian_adam}) {
    test::Zoo zoo(DType::f32, test::Cage::spheres);
    Optimizer optimizer(zoo.params, {.name = name, .lazy_rows = true});
    zoo.draw(1);
    optimizer.step(zoo.params, {.lr = 0.01});
    const auto before = zoo.values("embedding");
    const auto query = zoo.values("query");
    zoo.draw(2);
    for (const char* of : {"embedding", "query"}) {
      const Tensor grad = zoo.params.grad(zoo.params.find(of));
      for (Index c = 0; c < 12; ++c) set_value(grad, 4, c, 0);
    }
    optimizer.step(zoo.params, {.lr = 0.01});
    const auto after = zoo.values("embedding");
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(before[i] == after[i], i / 12 == 4);
    // A hidden matrix is never lazy: momentum moves that row on.
    EXPECT_NE(zoo.values("query")[4 * 12], query[4 * 12]);
  }
}

}  // namespace
}  // namespace norma
