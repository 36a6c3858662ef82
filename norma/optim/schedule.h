// The learning rate over a run.
#pragma once

#include "norma/base/fields.h"
#include "norma/base/types.h"

namespace norma {

enum class ScheduleName : std::uint8_t { cosine, timm_cosine, log, wsd, inverse_sqrt, constant };
template <>
struct Words<ScheduleName> {
  static constexpr std::array<std::pair<std::string_view, ScheduleName>, 6> kAll{{
      {"cosine", ScheduleName::cosine},
      {"timm_cosine", ScheduleName::timm_cosine},
      {"log", ScheduleName::log},
      {"wsd", ScheduleName::wsd},
      {"inverse_sqrt", ScheduleName::inverse_sqrt},
      {"constant", ScheduleName::constant},
  }};
};

enum class DecayShape : std::uint8_t {
  linear,     // 1 − r
  minus_sqrt  // 1 − √r
};
template <>
struct Words<DecayShape> {
  static constexpr std::array<std::pair<std::string_view, DecayShape>, 2> kAll{{
      {"linear", DecayShape::linear},
      {"minus_sqrt", DecayShape::minus_sqrt},
  }};
};

struct ScheduleSpec {
  ScheduleName name = ScheduleName::cosine;
  Index warmup = 0;
  double warmup_fraction = 0;
  double warmup_from = 0;
  double min_lr = 0;
  Index decay_steps = 0;
  double decay_fraction = 0.2;
  DecayShape shape = DecayShape::linear;
  double rho = 0.1;
  bool jump = false;

  template <class F>
  void fields(F&& f) {
    f("name", name, "how the learning rate falls");
    f("warmup", warmup, "steps of warm-up", Range{0, 1e12});
    f("warmup_fraction",
      warmup_fraction,
      "warm-up as a share of the run, where warmup is 0",
      Range{0, 1});
    f("warmup_from", warmup_from, "timm_cosine: learning rate at step 0", Range{0, 1e6});
    f("min_lr", min_lr, "learning rate at the end", Range{0, 1e6});
    f("decay_steps",
      decay_steps,
      "step at which the end is reached; 0: the run's last",
      Range{0, 1e12});
    f("decay_fraction", decay_fraction, "wsd: share of the run that decays", Range{0, 1});
    f("shape", shape, "wsd: form of the decay");
    f("rho", rho, "log: curvature, small falls fast", Range{1e-9, 1e9});
    f("jump", jump, "timm_cosine: the cosine counts warm-up too and so starts lower");
  }
};

/// The learning rate of step `step` (from 0) of `total`, with W steps of warm-up and the end at
/// step D. Throws RequestError for a value out of range, a warm-up that does not fit, or min_lr >
/// peak.
///   cosine       step < W: peak·(step+1)/(W+1); then min + ½(1+cos π(step−W)/(D−W))·(peak−min)
///   timm_cosine  step < W: from + step·(peak−from)/W; then the cosine from W on, or with `jump` as
///                if it had begun at step 0
///   log          warm-up as cosine; then min + (peak−min)·(1 − ln(1+r/ρ)/ln(1+1/ρ)),
///                r = (step−W)/(D−W)
///   wsd          warm-up as cosine; peak; over the last share min + (peak−min)·(1−r or 1−√r)
///   inverse_sqrt with t = step+1: peak·min(t^(−½), t·W^(−3/2)), W at least 1. Its largest value,
///                at t = W, is peak/√W.
///   constant     warm-up as cosine, then peak
/// After D the learning rate is min_lr, except for inverse_sqrt and constant.
double lr_at(const ScheduleSpec& spec, double peak, Index step, Index total);

}  // namespace norma
