// Every op of the registry through every generic check, and the registry against the op pages.
#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include "norma/checks/registry.h"
#include "norma/checks/run_case.h"

namespace norma::checks {
namespace {

class OpChecks : public testing::TestWithParam<std::size_t> {};

TEST_P(OpChecks, AllCasesPass) {
  const OpCheck& check = registry()[GetParam()];
  std::set<std::string> judged;
  std::set<std::string> seen;
  for (const CaseId& id : cases_of(check, 1)) {
    const CaseResult result = run_case(check, id);
    EXPECT_EQ(result.failure, "");
    if (id.condition == Condition::plain) {
      judged.insert(result.judged.begin(), result.judged.end());
    }
    seen.insert(result.judged.begin(), result.judged.end());
    seen.insert(result.unjudged.begin(), result.unjudged.end());
  }
  EXPECT_EQ(judged, seen) << "an input whose gradient no plain case of " << check.op << " judges";
}

// A second seed on the smaller sizes: inputs are random, and one lucky draw should not pass an op.
TEST_P(OpChecks, AnotherSeedPasses) {
  const OpCheck& check = registry()[GetParam()];
  for (const std::string& variant : check.variants) {
    for (std::size_t i = 0; i < check.sizes.size(); i += 7) {
      const CaseResult result = run_case(check, {check.sizes[i], variant, Condition::plain, 77});
      EXPECT_EQ(result.failure, "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry,
                         OpChecks,
                         testing::Range<std::size_t>(0, registry().size()),
                         [](const auto& param) { return registry()[param.param].op; });

TEST(Registry, NamesAreUnique) {
  std::set<std::string> names;
  for (const OpCheck& check : registry()) EXPECT_TRUE(names.insert(check.op).second) << check.op;
}

TEST(Registry, EveryRowCanBeMeasured) {
  for (const OpCheck& check : registry()) {
    EXPECT_FALSE(check.sizes.empty()) << check.op;
    EXPECT_FALSE(check.bench_sizes.empty()) << check.op << " has no size for norma bench kernels";
    EXPECT_FALSE(check.gpu_bench_sizes.empty()) << check.op << " has no size for a GPU";
    EXPECT_EQ(check.conditions.empty(), check.condition_sizes.empty()) << check.op;
  }
}

/// An op page without a page of cases would be an op that nobody checks.
TEST(Registry, EveryOpPageHasCasesAndDocs) {
  const std::filesystem::path root = NORMA_SOURCE_DIR;
  const std::set<std::string> not_ops = {"dispatch", "draw", "loss_rows"};
  for (const auto& entry : std::filesystem::directory_iterator(root / "norma/ops")) {
    const std::string page = entry.path().stem();
    if (entry.path().extension() != ".cpp" || not_ops.contains(page)) continue;
    EXPECT_TRUE(std::filesystem::exists(root / "norma/checks/cases" / (page + ".cpp")))
        << page << " has no checks";
    EXPECT_TRUE(std::filesystem::exists(root / "docs/ops" / (page + ".md")))
        << page << " has no docs";
  }
}

}  // namespace
}  // namespace norma::checks
