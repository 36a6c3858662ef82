#include "norma/optim/optim_spec.h"

#include <cmath>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "tests/support/expect.h"

namespace norma {
namespace {

using test::throws;

OptimSpec defaults(OptimName name) { return resolved({.name = name}); }

TEST(OptimSpec, DefaultsOfEveryOptimizer) {
  const OptimSpec adamw = defaults(OptimName::adamw);
  EXPECT_EQ(adamw.lr, 1e-3);
  EXPECT_EQ(adamw.beta1, 0.9);
  EXPECT_EQ(adamw.beta2, 0.999);
  EXPECT_EQ(adamw.eps, 1e-8);
  EXPECT_EQ(adamw.weight_decay, 0.01);
  const OptimSpec sgdw = defaults(OptimName::sgdw);
  EXPECT_EQ(sgdw.lr, 1e-3);
  EXPECT_EQ(sgdw.momentum, 0.9);
  EXPECT_EQ(sgdw.damping, 0);
  EXPECT_EQ(sgdw.weight_decay, 0);
  EXPECT_FALSE(sgdw.nesterov);
  const OptimSpec muon = defaults(OptimName::muon);
  EXPECT_EQ(muon.lr, 0.02);
  EXPECT_EQ(muon.momentum, 0.95);
  EXPECT_EQ(muon.weight_decay, 0);
  EXPECT_EQ(muon.muon_steps, 5);
  EXPECT_TRUE(muon.muon_nesterov);
  EXPECT_EQ(muon.muon_adam_lr, 3e-4);
  EXPECT_EQ(muon.muon_adam_beta1, 0.9);
  EXPECT_EQ(muon.muon_adam_beta2, 0.95);
  EXPECT_EQ(muon.muon_adam_eps, 1e-10);
  const OptimSpec sphere = defaults(OptimName::riemannian_adam);
  EXPECT_EQ(sphere.lr, 1e-3);
  EXPECT_EQ(sphere.beta2, 0.999);
  const OptimSpec adagrad = defaults(OptimName::adagrad);
  EXPECT_EQ(adagrad.lr, 1e-2);
  EXPECT_EQ(adagrad.eps, 1e-10);
  const OptimSpec lion = defaults(OptimName::lion);
  EXPECT_EQ(lion.lr, 1e-4);
  EXPECT_EQ(lion.beta1, 0.9);
  EXPECT_EQ(lion.beta2, 0.99);
  EXPECT_EQ(defaults(OptimName::gated_adamw).gate, 0.5);
  EXPECT_EQ(defaults(OptimName::adam).weight_decay, 0);
  EXPECT_EQ(defaults(OptimName::rmsprop).beta2, 0.99);
  EXPECT_EQ(defaults(OptimName::lars).trust, 1e-3);
}

TEST(OptimSpec, WhatIsSetStaysAndResolvingTwiceChangesNothing) {
  for (const auto& [word, name] : Words<OptimName>::kAll) {
    SCOPED_TRACE(std::string(word));
    const OptimSpec once = resolved({.name = name, .lr = 0.125});
    OptimSpec twice = resolved(once);
    EXPECT_EQ(twice.lr, 0.125);
    OptimSpec copy = once;
    std::vector<double> numbers;
    copy.fields([&](std::string_view, auto& value, auto&&...) {
      numbers.push_back(static_cast<double>(value));
    });
    std::size_t at = 0;
    twice.fields([&](std::string_view option, auto& value, auto&&...) {
      const auto number = static_cast<double>(value);
      EXPECT_TRUE(number == numbers[at] || (std::isnan(number) && std::isnan(numbers[at])))
          << option;
      ++at;
    });
  }
}

TEST(OptimSpec, EveryOptionIsUsedBySomeOptimizer) {
  // An option that all refuse would be a typo in the table.
  std::set<std::string> refused;
  OptimSpec probe;
  std::size_t fields = 0;
  probe.fields([&](std::string_view, auto&, auto&&...) { ++fields; });
  for (std::size_t wanted = 0; wanted < fields; ++wanted) {
    bool accepted = false;
    std::string option;
    for (const auto& [word, name] : Words<OptimName>::kAll) {
      OptimSpec spec{.name = name};
      std::size_t at = 0;
      spec.fields([&](std::string_view title, auto& value, auto&&...) {
        if (at++ != wanted || title == "name") return;
        option = title;
        using V = std::remove_reference_t<decltype(value)>;
        if constexpr (std::is_same_v<V, double>) {
          value = 0.5;
        } else if constexpr (std::is_same_v<V, bool>) {
          value = !value;
        } else if constexpr (std::is_same_v<V, Index>) {
          value = 3;
        } else {
          value = static_cast<V>(1);
        }
      });
      try {
        (void)resolved(spec);
        accepted = true;
      } catch (const RequestError& error) {
        if (std::string(error.what()).find("does not use") == std::string::npos) accepted = true;
      }
    }
    EXPECT_TRUE(accepted) << option;
  }
}

TEST(OptimSpec, RefusesWhatTheOptimizerDoesNotUse) {
  EXPECT_TRUE(throws<RequestError>([] { resolved({.name = OptimName::lion, .momentum = 0.9}); },
                                   {"optim: lion does not use momentum; leave it out."}));
  EXPECT_TRUE(throws<RequestError>([] { resolved({.name = OptimName::adamw, .nesterov = true}); },
                                   {"adamw", "nesterov"}));
  EXPECT_TRUE(throws<RequestError>([] { resolved({.name = OptimName::adamw, .muon_steps = 6}); },
                                   {"adamw", "muon_steps"}));
  EXPECT_TRUE(throws<RequestError>(
      [] { resolved({.name = OptimName::sgdw, .transport = Transport::parallel}); },
      {"sgdw", "transport"}));
  EXPECT_TRUE(throws<RequestError>(
      [] { resolved({.name = OptimName::riemannian_adam, .weight_decay = 0.1}); },
      {"riemannian_adam", "weight_decay"}));
  EXPECT_TRUE(throws<RequestError>([] { resolved({.name = OptimName::lion, .hyperball = true}); },
                                   {"lion", "hyperball"}));
}

TEST(OptimSpec, RefusesValuesOutOfRangeAndSaysTheRange) {
  EXPECT_TRUE(throws<RequestError>([] { resolved({.beta1 = 1.5}); },
                                   {"beta1 must be between 0 and", "got 1.5"}));
  EXPECT_TRUE(throws<RequestError>([] { resolved({.lr = -1}); }, {"lr must be between 0"}));
  EXPECT_TRUE(throws<RequestError>([] { resolved({.eps = 0}); }, {"eps must be between 1e-30"}));
  EXPECT_TRUE(throws<RequestError>([] { resolved({.name = OptimName::muon, .muon_steps = 17}); },
                                   {"muon_steps must be between 1 and 16, got 17"}));
  EXPECT_TRUE(throws<RequestError>([] { resolved({.lr_head = std::nan("")}); }, {"lr_head"}));
  EXPECT_TRUE(throws<RequestError>([] { resolved({.clip_bound = -2}); }, {"clip_bound"}));
}

TEST(OptimSpec, RefusesContradictions) {
  EXPECT_TRUE(throws<RequestError>(
      [] { resolved({.name = OptimName::sgdw, .momentum = 0, .nesterov = true}); },
      {"nesterov needs momentum above 0"}));
  EXPECT_TRUE(throws<RequestError>(
      [] { resolved({.name = OptimName::sgdw, .damping = 0.5, .nesterov = true}); },
      {"nesterov needs damping 0"}));
  EXPECT_TRUE(throws<RequestError>([] { resolved({.weight_decay = 0.1, .hyperball = true}); },
                                   {"set weight_decay to 0"}));
  EXPECT_EQ(resolved({.hyperball = true}).weight_decay, 0);
}

TEST(OptimSpec, TheBoundOfClippingDependsOnItsMode) {
  EXPECT_EQ(resolved({}).clip_bound, 1);
  EXPECT_EQ(resolved({.clip = ClipMode::agc}).clip_bound, 0.01);
  EXPECT_EQ(resolved({.clip_bound = 0}).clip_bound, 0);
}

}  // namespace
}  // namespace norma
