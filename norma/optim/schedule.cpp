#include "norma/optim/schedule.h"

#include <algorithm>
#include <cmath>

#include "norma/base/error.h"
#include "norma/base/text.h"

namespace norma {

namespace {

constexpr double kPi = 3.14159265358979323846;

double half_cosine(double progress) { return 0.5 * (1 + std::cos(kPi * progress)); }

/// The numbers of one request, checked.
struct Plan {
  Plan(const ScheduleSpec& spec, double peak_lr, Index step, Index total)
      : peak(peak_lr),
        at(static_cast<double>(step)),
        warmup(spec.warmup > 0 ? static_cast<double>(spec.warmup)
                               : std::round(spec.warmup_fraction * static_cast<double>(total))),
        end(static_cast<double>(spec.decay_steps > 0 ? spec.decay_steps : total)),
        low(spec.min_lr) {
    ScheduleSpec looked_at = spec;
    looked_at.fields([](std::string_view option, auto& value, std::string_view, Range range = {}) {
      const auto number = static_cast<double>(value);
      if (std::isfinite(range.least) && !(number >= range.least && number <= range.most)) {
        throw RequestError(say("schedule: ",
                               option,
                               " must be between ",
                               range.least,
                               " and ",
                               range.most,
                               ", got ",
                               number,
                               "."));
      }
    });
    if (!(peak >= 0) || !std::isfinite(peak)) {
      throw RequestError(say("schedule: the peak must be a number of at least 0, got ", peak, "."));
    }
    if (step < 0 || total < 1) {
      throw RequestError(say("schedule: step must be at least 0 and total at least 1, got ",
                             step,
                             " and ",
                             total,
                             "."));
    }
    const bool falls =
        spec.name != ScheduleName::constant && spec.name != ScheduleName::inverse_sqrt;
    if (falls && low > peak) {
      throw RequestError(
          say("schedule: min_lr must be at most the peak ", peak, ", got ", low, "."));
    }
    if (falls && warmup >= end) {
      throw RequestError(say("schedule: warmup must be shorter than the ",
                             end,
                             " steps of the schedule, got ",
                             warmup,
                             "."));
    }
  }
  double between(double share) const { return low + (peak - low) * share; }
  double progress() const { return (at - warmup) / (end - warmup); }

  double peak;
  double at;
  double warmup;
  double end;
  double low;
};

double wsd(const ScheduleSpec& spec, const Plan& plan) {
  const double length = spec.decay_fraction * plan.end;
  const double begin = std::max(plan.warmup, plan.end - length);
  if (plan.at < begin) return plan.peak;
  const double r = (plan.at - begin) / (plan.end - begin);
  return plan.between(spec.shape == DecayShape::linear ? 1 - r : 1 - std::sqrt(r));
}

}  // namespace

double lr_at(const ScheduleSpec& spec, double peak, Index step, Index total) {
  const Plan plan(spec, peak, step, total);
  if (spec.name == ScheduleName::inverse_sqrt) {
    const double t = plan.at + 1;
    const double w = std::max(1.0, plan.warmup);
    return peak * std::min(1 / std::sqrt(t), t / (w * std::sqrt(w)));
  }
  if (plan.at < plan.warmup) {
    if (spec.name == ScheduleName::timm_cosine) {
      return spec.warmup_from + plan.at * (peak - spec.warmup_from) / plan.warmup;
    }
    return peak * (plan.at + 1) / (plan.warmup + 1);
  }
  if (spec.name == ScheduleName::constant) return peak;
  if (plan.at >= plan.end) return plan.low;
  switch (spec.name) {
    case ScheduleName::timm_cosine:
      return plan.between(half_cosine(spec.jump ? plan.at / plan.end : plan.progress()));
    case ScheduleName::log:
      return plan.between(1 - std::log1p(plan.progress() / spec.rho) / std::log1p(1 / spec.rho));
    case ScheduleName::wsd:
      return wsd(spec, plan);
    default:
      return plan.between(half_cosine(plan.progress()));
  }
}

}  // namespace norma
