#include "norma/checks/device_case.h"

#include <algorithm>
#include <optional>

#include "norma/base/text.h"
#include "norma/checks/compare.h"

namespace norma::checks {

namespace {

constexpr Device kGpu{DeviceKind::cuda, 0};
// Not a multiple of anything that a kernel could load at once.
constexpr Index kRowPadding = 3;

std::string changed_input(const Instance& at, const Problem& problem) {
  for (std::size_t i = 0; i < at.input_count(); ++i) {
    if (at.input_changed(i)) return say("input ", problem.inputs[i].name, " was changed");
  }
  return {};
}

void take(CaseResult& result, const Errors& errors) {
  result.forward_error = std::max(result.forward_error, errors.forward);
  result.gradient_error = std::max(result.gradient_error, errors.gradient);
  result.parameter_error = std::max(result.parameter_error, errors.parameter);
  result.scale_error = std::max(result.scale_error, errors.scale.gap);
}

}  // namespace

std::string device_repro(const OpCheck& check, const CaseId& id, DType dtype) {
  return say(repro(check, id), " --device cuda --dtype ", name_of(dtype));
}

CaseResult run_device_case(const OpCheck& check, const CaseId& id, DType dtype) {
  const Problem problem = check.make(id.size, id.variant);
  const Limit limit = limit_of(check.kind, dtype, check.roundings);
  const Instance::Layout exact{.dtype = DType::f64, .grid = dtype};
  const Instance::Layout plain{.dtype = dtype, .device = kGpu, .grid = dtype};
  Instance::Layout padded = plain;
  padded.row_padding = kRowPadding;
  const bool stored = dtype == DType::bf16 && problem.stored_in_bf16;
  CaseResult result;

  Instance truth(problem, id, exact);
  run_both(truth, stored ? problem.stored_in_bf16 : problem.forward);
  std::optional<Instance> unstored;
  if (stored && problem.stored_or_not) {
    unstored.emplace(problem, id, exact);
    run_both(*unstored, problem.forward);
  }
  const auto errors_of = [&](const Instance& got) {
    const Errors one = errors_between(got, truth, check.cancels, dtype);
    if (!unstored) return one;
    const Errors other = errors_between(got, *unstored, check.cancels, dtype);
    return other.forward < one.forward ? other : one;
  };
  Instance first(problem, id, plain);
  run_both(first, problem.forward);
  const Errors errors = errors_of(first);
  take(result, errors);

  std::string composed_failure;
  if (problem.composed && !stored) {
    Instance composed(problem, id, exact);
    run_both(composed, problem.composed);
    composed_failure = errors_over(say("against the composed definition in ", name_of(dtype)),
                                   errors_between(first, composed, check.cancels, dtype),
                                   limit);
  }

  Instance strided(problem, id, padded);
  run_both(strided, problem.forward);
  const Errors strided_errors = errors_of(strided);
  take(result, strided_errors);

  Instance second(problem, id, plain);
  run_both(second, problem.forward);
  const std::string difference = bit_difference(first, second);

  const std::string failure =
      first_of({errors_over(say("in ", name_of(dtype)), errors, limit),
                composed_failure,
                errors_over(say("of strided rows in ", name_of(dtype)), strided_errors, limit),
                gap_failure(strided, problem),
                changed_input(first, problem),
                difference.empty() ? "" : say("a second run changes the bits of ", difference),
                twice_failure(second, problem, first, limit)});
  if (!failure.empty()) {
    result.failure = failure_text(check.op, failure, device_repro(check, id, dtype));
  }
  return result;
}

}  // namespace norma::checks
