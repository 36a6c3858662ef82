// The checks are checked: every gradient of every op, made 1 % too large, must be noticed.
#include <cstdio>
#include <map>

#include <gtest/gtest.h>

#include "norma/checks/registry.h"
#include "norma/checks/run_case.h"

namespace norma::checks {
namespace {

constexpr int kMostInputs = 8;

class Faults : public testing::TestWithParam<std::size_t> {};

TEST_P(Faults, OnePercentIsNoticed) {
  const OpCheck& check = registry()[GetParam()];
  std::map<int, double> largest_gap;  // input of the op -> what the check sees at best
  for (const std::string& variant : check.variants) {
    for (std::size_t s = 0; s < check.sizes.size(); s += 1 + check.sizes.size() / 4) {
      for (int input = 0; input < kMostInputs; ++input) {
        const CaseId id{check.sizes[s], variant, Condition::plain, 1};
        const FaultOutcome outcome =
            plant_fault(check, id, {.op = check.op, .input = input, .factor = 1.01});
        if (!outcome.planted) continue;
        largest_gap[input] = std::max(largest_gap[input], outcome.gradient_gap);
      }
    }
  }
  ASSERT_FALSE(largest_gap.empty()) << check.op << " never had a gradient to get wrong";
  for (const auto& [input, gap] : largest_gap) {
    std::printf("%s input %d: gap %.1e with the fault\n", check.op.c_str(), input, gap);
    EXPECT_GT(gap, 1000 * kGradientGap) << check.op << " input " << input;
  }
}

INSTANTIATE_TEST_SUITE_P(Registry,
                         Faults,
                         testing::Range<std::size_t>(0, registry().size()),
                         [](const auto& param) { return registry()[param.param].op; });

}  // namespace
}  // namespace norma::checks
