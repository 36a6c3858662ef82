// Whether the check of a result's scale sees what the limits of single elements let pass in bf16.
#include <gtest/gtest.h>

#include "norma/base/bf16.h"
#include "norma/checks/compare.h"
#include "norma/checks/registry.h"

namespace norma::checks {
namespace {

/// Every element times the factor, rounded as a kernel in bf16 would.
void scale_and_round(const Tensor& t, double factor) {
  for (Index r = 0; r < t.shape.rows(); ++r) {
    for (Index c = 0; c < t.shape.cols(); ++c) {
      const auto value = static_cast<float>(factor * value_at(t, r, c));
      set_value(t, r, c, static_cast<double>(to_float(to_bf16(value))));
    }
  }
}

/// One case of attention, whose limits in bf16 are the widest, and its truth.
class ScaleOfResults : public testing::Test {
 protected:
  const OpCheck& check_ = find_check("attention");
  const CaseId id_{.size = {1, 65, 2, 1, 64}, .variant = "causal"};
  const Problem problem_ = check_.make(id_.size, id_.variant);
  Instance truth_{problem_, id_, {.dtype = DType::f64, .grid = DType::bf16}};
  Instance got_{problem_, id_, {.dtype = DType::f32, .grid = DType::bf16}};

  void SetUp() override {
    run_both(truth_, problem_.forward);
    run_both(got_, problem_.forward);
  }
  std::string failure() const {
    return errors_over("in bf16",
                       errors_between(got_, truth_, check_.cancels, DType::bf16),
                       limit_of(check_.kind, DType::bf16, check_.roundings));
  }
};

TEST_F(ScaleOfResults, HonestRoundingPasses) {
  scale_and_round(got_.outputs()[0].tensor, 1);
  for (std::size_t i = 0; i < got_.input_count(); ++i) scale_and_round(got_.grad(i), 1);
  EXPECT_EQ(failure(), "");
  EXPECT_LT(errors_between(got_, truth_, check_.cancels, DType::bf16).scale.gap, 1e-3);
}

TEST_F(ScaleOfResults, OnePercentInTheOutputFails) {
  scale_and_round(got_.outputs()[0].tensor, 1.01);
  EXPECT_NE(failure().find("output 0 in bf16 is 1.0"), std::string::npos) << failure();
}

TEST_F(ScaleOfResults, OnePercentInAGradientFails) {
  scale_and_round(got_.grad(0), 0.99);
  EXPECT_NE(failure().find("the gradient of q in bf16 is 0.99"), std::string::npos) << failure();
}

TEST_F(ScaleOfResults, OnePercentPassesElsewhere) {
  scale_and_round(got_.grad(0), 0.99);
  Errors errors = errors_between(got_, truth_, check_.cancels, DType::bf16);
  errors.scale = {};
  EXPECT_EQ(errors_over("", errors, limit_of(check_.kind, DType::bf16, check_.roundings)), "");
}

OwnedTensor filled(Index count, double (*value)(Index)) {
  OwnedTensor t({count}, DType::f64);
  for (Index i = 0; i < count; ++i) set_value(t.tensor, 0, i, value(i));
  return t;
}

TEST(ScaleBetween, IsTheFactorAndWhatRemains) {
  const OwnedTensor want = filled(1000, [](Index i) { return static_cast<double>(i % 7 - 3); });
  const OwnedTensor twice =
      filled(1000, [](Index i) { return 2.0 * static_cast<double>(i % 7 - 3); });
  const Scale scale = scale_between(twice.tensor, want.tensor);
  EXPECT_DOUBLE_EQ(scale.factor, 2);
  EXPECT_DOUBLE_EQ(scale.uncertainty, 0);
}

TEST(ScaleBetween, IsOneWhereThereIsNothingToScale) {
  const OwnedTensor zeros = filled(1000, [](Index) { return 0.0; });
  const OwnedTensor noise = filled(1000, [](Index i) { return static_cast<double>(i % 3); });
  EXPECT_EQ(scale_between(noise.tensor, zeros.tensor).factor, 1);
}

// What is left where large terms cancel has no scale of its own.
TEST(ScaleBetween, SaysWhenErrorsExplainIt) {
  const OwnedTensor want = filled(1000, [](Index i) { return i % 2 == 0 ? 1e-9 : -1e-9; });
  const OwnedTensor noise = filled(1000, [](Index i) { return i % 3 == 0 ? 1e-6 : -1e-6; });
  const Scale scale = scale_between(noise.tensor, want.tensor);
  EXPECT_GT(kScaleDeviations * scale.uncertainty, scale_limit(DType::bf16));
}

}  // namespace
}  // namespace norma::checks
