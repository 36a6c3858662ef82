// Whether the limits of bf16 can be met: an op that computes in f32 from inputs on the grid of bf16
// and rounds its results once must stay well inside them.
#include <algorithm>

#include <gtest/gtest.h>

#include "norma/base/bf16.h"
#include "norma/checks/compare.h"
#include "norma/checks/registry.h"

namespace norma::checks {
namespace {

void round_to_bf16(const Tensor& t) {
  for (Index r = 0; r < t.shape.rows(); ++r) {
    for (Index c = 0; c < t.shape.cols(); ++c) {
      const auto value = static_cast<float>(value_at(t, r, c));
      set_value(t, r, c, static_cast<double>(to_float(to_bf16(value))));
    }
  }
}

/// What a kernel that rounds once would be judged by.
Errors ideal_errors(const OpCheck& check, const CaseId& id) {
  const Problem problem = check.make(id.size, id.variant);
  const Problem::Function& f = problem.stored_in_bf16 ? problem.stored_in_bf16 : problem.forward;
  Instance truth(problem, id, {.dtype = DType::f64, .grid = DType::bf16});
  run_both(truth, f);
  Instance fast(problem, id, {.dtype = DType::f32, .grid = DType::bf16});
  run_both(fast, f);
  if (check.kind != Kind::loss) {
    for (const OwnedTensor& output : fast.outputs()) round_to_bf16(output.tensor);
  }
  Errors errors;
  for (std::size_t i = 0; i < fast.input_count(); ++i) {
    if (!fast.differentiable(i)) continue;
    const bool parameter = storage_of(problem.inputs[i]) != Storage::values;
    if (!parameter) round_to_bf16(fast.grad(i));
    const double floor = std::max(truth.summed_size(i), check.cancels ? truth.natural_grad(i) : 0);
    double& worst = parameter ? errors.parameter : errors.gradient;
    worst = std::max(worst, tensor_error(fast.grad(i), truth.grad(i), floor));
  }
  const Errors all = errors_between(fast, truth, check.cancels, DType::bf16);
  errors.forward = all.forward;
  errors.scale = all.scale;
  return errors;
}

class Bf16Limits : public testing::TestWithParam<std::size_t> {};

TEST_P(Bf16Limits, LeaveRoomForOneRounding) {
  const OpCheck& check = registry()[GetParam()];
  const Limit limit = limit_of(check.kind, DType::bf16, check.roundings);
  for (const CaseId& id : cases_of(check, 1)) {
    const Errors errors = ideal_errors(check, id);
    EXPECT_LE(errors.forward, limit.forward) << repro(check, id);
    EXPECT_LE(errors.gradient, limit.gradient) << repro(check, id);
    EXPECT_LE(errors.parameter, 0.1 * limit.parameter) << repro(check, id);
    EXPECT_LE(errors.scale.gap, 0.5 * errors.scale.limit) << repro(check, id);
  }
}

INSTANTIATE_TEST_SUITE_P(Registry,
                         Bf16Limits,
                         testing::Range<std::size_t>(0, registry().size()),
                         [](const auto& param) { return registry()[param.param].op; });

}  // namespace
}  // namespace norma::checks
