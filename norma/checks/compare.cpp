#include "norma/checks/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "norma/base/text.h"

namespace norma::checks {

namespace {

/// The error of factor·got.
double scaled_error(const Tensor& got, double factor, const Tensor& want, double floor) {
  const double scale = std::max(rms(want), floor);
  double worst = 0;
  for (Index r = 0; r < want.shape.rows(); ++r) {
    for (Index c = 0; c < want.shape.cols(); ++c) {
      const double g = factor * value_at(got, r, c);
      const double w = value_at(want, r, c);
      if (!std::isfinite(g)) return std::numeric_limits<double>::infinity();
      if (g != w) worst = std::max(worst, std::abs(g - w) / (std::abs(w) + scale));
    }
  }
  return worst;
}

/// Takes one more tensor into account.
void judge_scale(WorstScale& worst, const Tensor& got, const Tensor& want, std::string_view name) {
  const Scale scale = scale_between(got, want);
  if (scale.terms < kScaleTerms) return;
  const double gap = std::abs(scale.factor - 1);
  // Where terms cancel so that little of want is left, rounding alone may explain any factor.
  if (gap <= worst.gap || kScaleDeviations * scale.uncertainty > worst.limit) return;
  worst.gap = gap;
  worst.factor = scale.factor;
  worst.tensor = name;
}

}  // namespace

double tensor_error(const Tensor& got, const Tensor& want, double floor) {
  return scaled_error(got, 1, want, floor);
}

Scale scale_between(const Tensor& got, const Tensor& want) {
  double along = 0;    // ⟨got, want⟩
  double squares = 0;  // ⟨want, want⟩
  double fourths = 0;  // Σ want⁴
  for (Index r = 0; r < want.shape.rows(); ++r) {
    for (Index c = 0; c < want.shape.cols(); ++c) {
      const double w = value_at(want, r, c);
      along += value_at(got, r, c) * w;
      squares += w * w;
      fourths += w * w * w * w;
    }
  }
  if (squares == 0) return {};  // nothing that could be scaled
  const double factor = along / squares;
  double variance = 0;  // of ⟨got, want⟩
  for (Index r = 0; r < want.shape.rows(); ++r) {
    for (Index c = 0; c < want.shape.cols(); ++c) {
      const double w = value_at(want, r, c);
      const double term = (value_at(got, r, c) - factor * w) * w;
      variance += term * term;
    }
  }
  return {.factor = factor,
          .uncertainty = std::sqrt(variance) / squares,
          .terms = squares * squares / fourths};
}

void run_both(Instance& at, const Problem::Function& f) {
  at.clear_grads();
  at.forward(f);
  at.backward(false);
}

Errors errors_between(const Instance& got, const Instance& want, bool cancels, DType dtype) {
  Errors errors;
  errors.scale.limit = scale_limit(dtype);
  // Conditions make elements equal, and then their roundings do not cancel.
  const bool scales = got.condition() == Condition::plain;
  for (std::size_t k = 0; k < got.outputs().size(); ++k) {
    const Tensor& ours = got.outputs()[k].tensor;
    const Tensor& truth = want.outputs()[k].tensor;
    errors.forward = std::max(errors.forward, tensor_error(ours, truth));
    if (scales) judge_scale(errors.scale, ours, truth, say("output ", k));
  }
  for (std::size_t i = 0; i < got.input_count(); ++i) {
    if (!got.differentiable(i)) continue;
    const double floor = std::max(want.summed_size(i), cancels ? want.natural_grad(i) : 0);
    double& worst = got.wide_grad(i) ? errors.parameter : errors.gradient;
    worst = std::max(worst, tensor_error(got.grad(i), want.grad(i), floor));
    if (!scales) continue;
    judge_scale(
        errors.scale, got.grad(i), want.grad(i), say("the gradient of ", got.input_name(i)));
  }
  return errors;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  for (Index r = 0; r < a.shape.rows(); ++r) {
    for (Index c = 0; c < a.shape.cols(); ++c) {
      const double x = value_at(a, r, c);
      const double y = value_at(b, r, c);
      if (std::memcmp(&x, &y, sizeof x) != 0) return false;
    }
  }
  return true;
}

std::string bit_difference(const Instance& a, const Instance& b) {
  for (std::size_t k = 0; k < a.outputs().size(); ++k) {
    if (!same_bits(a.outputs()[k].tensor, b.outputs()[k].tensor)) return say("output ", k);
  }
  for (std::size_t i = 0; i < a.input_count(); ++i) {
    if (a.differentiable(i) && !same_bits(a.grad(i), b.grad(i))) return say("gradient ", i);
  }
  return {};
}

std::string over(std::string_view what, double value, double limit) {
  if (value <= limit) return {};
  return say(what, " ", scientific(value, 1), " > ", scientific(limit, 1));
}

std::string errors_over(std::string_view suffix, const Errors& errors, const Limit& limit) {
  return first_of(
      {over(say("forward error ", suffix), errors.forward, limit.forward),
       over(say("gradient error ", suffix), errors.gradient, limit.gradient),
       over(say("parameter gradient error ", suffix), errors.parameter, limit.parameter),
       scale_over(suffix, errors.scale)});
}

std::string scale_over(std::string_view suffix, const WorstScale& scale) {
  if (scale.gap <= scale.limit) return {};
  return say(scale.tensor,
             " ",
             suffix,
             " is ",
             fixed(scale.factor, 6),
             " times what it should be; 1 ± ",
             scientific(scale.limit, 0),
             " is allowed");
}

std::string twice_failure(Instance& at,
                          const Problem& problem,
                          const Instance& once,
                          const Limit& limit) {
  at.clear_grads();
  at.forward(problem.forward);
  at.backward(true);
  at.backward(false);
  for (std::size_t i = 0; i < at.input_count(); ++i) {
    if (!at.differentiable(i)) continue;
    const double allowed = at.wide_grad(i) ? limit.parameter : limit.gradient;
    if (scaled_error(at.grad(i), 0.5, once.grad(i), 0) > allowed) {
      return say("backward twice did not double the gradient of ", problem.inputs[i].name);
    }
  }
  return {};
}

std::string gap_failure(const Instance& strided, const Problem& problem) {
  for (std::size_t i = 0; i < strided.input_count(); ++i) {
    if (strided.differentiable(i) && strided.gap_written(i)) {
      return say("something was written between the rows of the gradient of ",
                 problem.inputs[i].name);
    }
  }
  return {};
}

std::string first_of(std::initializer_list<std::string> candidates) {
  for (const std::string& text : candidates) {
    if (!text.empty()) return text;
  }
  return {};
}

std::string failure_text(std::string_view op, std::string_view failure, std::string_view command) {
  return say(op, ": ", failure, ". Rerun: ", command);
}

}  // namespace norma::checks
