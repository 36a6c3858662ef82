#include "norma/checks/run_case.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "norma/base/rng.h"
#include "norma/base/text.h"
#include "norma/base/threads.h"
#include "norma/checks/compare.h"
#include "norma/checks/instance.h"
#include "norma/tensor/plain.h"

namespace norma::checks {

namespace {

double largest(const Tensor& t) {
  double most = 0;
  for (Index r = 0; r < t.shape.rows(); ++r) {
    for (Index c = 0; c < t.shape.cols(); ++c) most = std::max(most, std::abs(value_at(t, r, c)));
  }
  return most;
}

struct Gap {
  double value = 0;
  bool judged = true;  // false: rounding of the function values explains the difference
};

/// Gap between ⟨gradient, v⟩ and the slope along a random direction v of one input.
Gap directional_gap(
    Instance& at, const Problem::Function& f, std::size_t input, RandomKey key, double floor) {
  const Tensor& x = at.input(input);
  const Index cols = x.shape.cols();
  std::vector<double> kept(static_cast<std::size_t>(x.count()));
  std::vector<double> direction(kept.size());
  double along = 0;      // ⟨gradient, v⟩
  double grad_norm = 0;  // |gradient|²
  for (Index i = 0; i < x.count(); ++i) {
    const auto n = static_cast<std::size_t>(i);
    kept[n] = value_at(x, i / cols, i % cols);
    direction[n] = normal_at(key, n);
    const double g = value_at(at.grad(input), i / cols, i % cols);
    along += g * direction[n];
    grad_norm += g * g;
  }
  const double most = largest(x);
  const double h = kStep * (most == 0 ? 1 : most);
  const auto value = [&](double move) {
    for (Index i = 0; i < x.count(); ++i) {
      const auto n = static_cast<std::size_t>(i);
      set_value(x, i / cols, i % cols, kept[n] + move * direction[n]);
    }
    at.forward(f);
    return at.projected();
  };
  // Four points: the error is of order h⁴, so steep places (constant rows) do not spoil it.
  const double slope = (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h);
  value(0);
  // What rounding of the function values alone can do to the slope (a bias beside values of 1e15).
  const double noise = 8 * std::numeric_limits<double>::epsilon() * at.projected_magnitude() / h;
  const double scale = std::max({std::abs(slope), std::sqrt(grad_norm), floor});
  if (!std::isfinite(slope) || !std::isfinite(along)) {
    return {.value = std::numeric_limits<double>::infinity()};
  }
  const double difference = std::abs(slope - along);
  if (difference == 0) return {};
  const double gap = difference / scale;
  return {.value = gap, .judged = gap <= kGradientGap || difference > noise};
}

/// The gradients of all inputs against differences.
struct Gaps {
  double worst = 0;  // of those that could be judged
  std::vector<std::string> judged;
  std::vector<std::string> unjudged;
};
Gaps gradient_gaps(Instance& truth,
                   const OpCheck& check,
                   const Problem& problem,
                   const CaseId& id) {
  Gaps gaps;
  for (std::size_t i = 0; i < truth.input_count(); ++i) {
    if (!truth.differentiable(i)) continue;
    const Gap gap = directional_gap(
        truth, problem.forward, i, {id.seed, 2000 + i}, check.cancels ? truth.natural_grad(i) : 0);
    if (gap.judged) gaps.worst = std::max(gaps.worst, gap.value);
    (gap.judged ? gaps.judged : gaps.unjudged).push_back(problem.inputs[i].name);
  }
  return gaps;
}

void judge_gradients(CaseResult& result,
                     Instance& truth,
                     const OpCheck& check,
                     const Problem& problem,
                     const CaseId& id) {
  Gaps gaps = gradient_gaps(truth, check, problem, id);
  result.gradient_gap = gaps.worst;
  result.judged = std::move(gaps.judged);
  result.unjudged = std::move(gaps.unjudged);
}

}  // namespace

FaultOutcome plant_fault(const OpCheck& check, const CaseId& id, const Fault& fault) {
  const Problem problem = check.make(id.size, id.variant);
  Instance truth(problem, id, {.dtype = DType::f64});
  truth.tape().set_fault(fault);
  run_both(truth, problem.forward);
  FaultOutcome outcome;
  outcome.planted = truth.tape().faults_planted() > 0;
  outcome.gradient_gap = gradient_gaps(truth, check, problem, id).worst;
  return outcome;
}

CaseResult run_f64_case(const OpCheck& check, const CaseId& id) {
  const Problem problem = check.make(id.size, id.variant);
  Instance truth(problem, id, {.dtype = DType::f64});
  run_both(truth, problem.forward);
  CaseResult result;
  judge_gradients(result, truth, check, problem, id);
  const std::string failure = over("gradient gap in f64", result.gradient_gap, kGradientGap);
  if (!failure.empty()) result.failure = failure_text(check.op, failure, repro(check, id));
  return result;
}

CaseResult run_case(const OpCheck& check, const CaseId& id) {
  const Problem problem = check.make(id.size, id.variant);
  const Limit limit = f32_limit(check.kind);
  CaseResult result;

  Instance truth(problem, id, {.dtype = DType::f64});
  run_both(truth, problem.forward);
  Instance fast(problem, id, {.dtype = DType::f32});
  run_both(fast, problem.forward);
  const Errors errors = errors_between(fast, truth, check.cancels, DType::f32);
  result.forward_error = errors.forward;
  result.gradient_error = errors.gradient;
  result.scale_error = errors.scale.gap;

  std::string composed_failure;
  if (problem.composed) {
    Instance composed(problem, id, {.dtype = DType::f64});
    run_both(composed, problem.composed);
    const Errors gap = errors_between(truth, composed, check.cancels, DType::f64);
    const Errors fused = errors_between(fast, composed, check.cancels, DType::f32);
    result.composed_gap = std::max(gap.forward, gap.gradient);
    composed_failure = first_of({over("fused − composed in f64", result.composed_gap, kComposedGap),
                                 over("f32 forward − composed", fused.forward, limit.forward),
                                 over("f32 gradient − composed", fused.gradient, limit.gradient),
                                 scale_over("in f32, against composed,", fused.scale)});
  }

  Instance untouched(problem, id, {.dtype = DType::f32});
  std::string touched;
  for (std::size_t i = 0; i < fast.input_count(); ++i) {
    if (!same_bits(fast.input(i), untouched.input(i))) {
      touched = say("input ", problem.inputs[i].name, " was changed");
    }
  }
  const std::string twice = twice_failure(untouched, problem, fast, limit);

  Instance strided(problem, id, {.dtype = DType::f32, .row_padding = 3});
  run_both(strided, problem.forward);
  const std::string stride = bit_difference(fast, strided);
  const std::string gap = gap_failure(strided, problem);

  std::string threads;
  {
    const ThreadScope one(thread_count() == 1 ? 2 : 1);
    Instance other(problem, id, {.dtype = DType::f32});
    run_both(other, problem.forward);
    threads = bit_difference(fast, other);
  }

  judge_gradients(result, truth, check, problem, id);
  const std::string failure =
      first_of({over("gradient gap in f64", result.gradient_gap, kGradientGap),
                over("forward error in f32", result.forward_error, limit.forward),
                over("gradient error in f32", result.gradient_error, limit.gradient),
                scale_over("in f32", errors.scale),
                composed_failure,
                touched,
                twice,
                stride.empty() ? "" : say("strided rows change the bits of ", stride),
                gap,
                threads.empty() ? "" : say("the thread count changes the bits of ", threads)});
  if (!failure.empty()) result.failure = failure_text(check.op, failure, repro(check, id));
  return result;
}

std::vector<CaseId> cases_of(const OpCheck& check, std::uint64_t seed, bool gpu) {
  std::vector<CaseId> cases;
  for (const std::string& variant : check.variants) {
    for (const Shape& size : check.sizes) {
      cases.push_back({size, variant, Condition::plain, seed});
    }
    for (const Shape& size : gpu ? check.gpu_sizes : std::vector<Shape>{}) {
      cases.push_back({size, variant, Condition::plain, seed});
    }
    for (const Condition condition : check.conditions) {
      for (const Shape& size : check.condition_sizes) {
        cases.push_back({size, variant, condition, seed});
      }
    }
  }
  return cases;
}

std::string repro(const OpCheck& check, const CaseId& id) {
  std::string shape;
  for (int i = 0; i < id.size.rank(); ++i) shape += say(i == 0 ? "" : "x", id.size[i]);
  return say("norma check ",
             check.op,
             " --variant ",
             id.variant,
             " --shape ",
             shape,
             " --condition ",
             name_of(id.condition),
             " --seed ",
             id.seed);
}

}  // namespace norma::checks
