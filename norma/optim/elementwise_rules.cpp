#include <algorithm>
#include <cmath>

#include "norma/kernels/sum_work.h"
#include "norma/optim/step_elements.h"

namespace norma {

namespace {

using kernels::AdamRule;

StateSlot element_slot(std::string_view name, const Span& span) { return {name, span.count, true}; }

double decay_of(const OptimSpec& spec, const Span& span) {
  return span.tags.decay ? spec.weight_decay : 0;
}

/// sgdw and sgd.
class SgdStep : public ElementRule {
 public:
  explicit SgdStep(const OptimSpec& spec) : spec_(spec) {}
  std::vector<StateSlot> slots(const Span& span) const override {
    if (spec_.momentum == 0) return {};
    return {element_slot("momentum", span)};
  }
  // Caution takes the mean over one tensor.
  bool merges() const override { return !spec_.caution; }

  std::size_t number_bytes() const override { return sizeof(kernels::SgdRule); }
  void prepare(const Span& span, const StepPass& pass, std::byte* numbers) const override {
    const bool coupled = spec_.name == OptimName::sgd;
    const double decay = decay_of(spec_, span);
    // The peak of this span is its factor times spec.lr, so the factor cancels once.
    const double decay_lr =
        spec_.corrected_decay ? pass.lr * pass.lr / (spec_.lr * span.lr_factor) : pass.lr;
    store_numbers(numbers,
                  kernels::SgdRule{.grad_scale = pass.grad_scale,
                                   .lr = pass.lr,
                                   .decay = coupled || pass.lr == 0 ? 0 : decay_lr * decay,
                                   .coupled = coupled ? decay : 0,
                                   .momentum = spec_.momentum,
                                   .damping = spec_.damping,
                                   .nesterov = spec_.nesterov,
                                   .first = pass.t == 1,
                                   .caution = spec_.caution,
                                   .caution_factor = 1});
  }
  void step(std::span<const Place> places) const override {
    if (spec_.caution) std::ranges::for_each(places, find_caution_factor);
    run<kernels::SgdRule>(places);
  }

 private:
  /// 1 / max(share of elements that agree, 1e-3)
  static void find_caution_factor(const Place& place) {
    const Index count = place.span->count;
    auto* rule = place.numbers_as<kernels::SgdRule>();
    with_kernels(place.w, [&]<class T>(auto who, T) {
      kernels::run(who,
                   kernels::SgdAgreement<T>{.w = place.w.as<const T>(),
                                            .g = place.g.as<const T>(),
                                            .b = place.slot<const T>(0),
                                            .count = count,
                                            .rule = rule,
                                            .partials = place.partials,
                                            .clip = place.clip});
      kernels::run(who,
                   kernels::SumThen<kernels::CautionFactor>{
                       place.partials, kernels::norm_pieces(count), {count, rule}});
    });
  }

  OptimSpec spec_;
};

struct AdamNumbers {
  double beta1;
  double beta2;
  double eps;
};

/// adamw, adam, gated_adamw, tangent_adam, and the Adam beside Muon and on what has no sphere.
class AdamStep : public ElementRule {
 public:
  AdamStep(const OptimSpec& spec, AdamNumbers numbers, double factor)
      : spec_(spec), numbers_(numbers), factor_(factor) {}
  std::vector<StateSlot> slots(const Span& span) const override {
    return {element_slot("m", span), element_slot("v", span)};
  }
  double lr_factor() const override { return factor_; }

  std::size_t number_bytes() const override {
    return gated() ? sizeof(kernels::GatedAdamRule) : sizeof(AdamRule);
  }
  void prepare(const Span& span, const StepPass& pass, std::byte* numbers) const override {
    const bool coupled = spec_.name == OptimName::adam;
    const bool decays = !tangent(span) && !std::isnan(spec_.weight_decay);
    const double decay = decays ? decay_of(spec_, span) : 0;
    const AdamRule rule{.grad_scale = pass.grad_scale,
                        .lr = pass.lr,
                        .decay = coupled ? 0 : pass.lr * decay,
                        .coupled = coupled ? decay : 0,
                        .beta1 = numbers_.beta1,
                        .beta2 = numbers_.beta2,
                        .eps = numbers_.eps,
                        .t = pass.t};
    if (gated()) {
      store_numbers(numbers, kernels::GatedAdamRule{rule, spec_.gate, spec_.eps_gate});
    } else {
      store_numbers(numbers, rule);
    }
  }
  void step(std::span<const Place> places) const override {
    if (tangent(*places.front().span)) std::ranges::for_each(places, project);
    if (gated()) {
      run<kernels::GatedAdamRule>(places);
    } else {
      run<AdamRule>(places);
    }
  }

 private:
  bool gated() const { return spec_.name == OptimName::gated_adamw; }
  bool tangent(const Span& span) const {
    return spec_.name == OptimName::tangent_adam && span.tags.constraint == Constraint::unit;
  }
  /// The gradient itself loses its radial part.
  static void project(const Place& place) {
    with_kernels(place.w, [&]<class T>(auto who, T) {
      kernels::run(
          who, kernels::TangentProject<T>{place.w.as<const T>(), place.g.as<T>(), place.layout()});
    });
  }

  OptimSpec spec_;
  AdamNumbers numbers_;
  double factor_;
};

class LionStep : public ElementRule {
 public:
  explicit LionStep(const OptimSpec& spec) : spec_(spec) {}
  std::vector<StateSlot> slots(const Span& span) const override {
    return {element_slot("m", span)};
  }
  std::size_t number_bytes() const override { return sizeof(kernels::LionRule); }
  void prepare(const Span& span, const StepPass& pass, std::byte* numbers) const override {
    store_numbers(numbers,
                  kernels::LionRule{.grad_scale = pass.grad_scale,
                                    .lr = pass.lr,
                                    .decay = pass.lr * decay_of(spec_, span),
                                    .beta1 = spec_.beta1,
                                    .beta2 = spec_.beta2});
  }
  void step(std::span<const Place> places) const override { run<kernels::LionRule>(places); }

 private:
  OptimSpec spec_;
};

class AdagradStep : public ElementRule {
 public:
  explicit AdagradStep(const OptimSpec& spec) : spec_(spec) {}
  std::vector<StateSlot> slots(const Span& span) const override {
    return {element_slot("v", span)};
  }
  std::size_t number_bytes() const override { return sizeof(kernels::AdagradRule); }
  void prepare(const Span& span, const StepPass& pass, std::byte* numbers) const override {
    store_numbers(
        numbers,
        kernels::AdagradRule{.grad_scale = pass.grad_scale,
                             .lr = pass.lr / (1 + static_cast<double>(pass.t - 1) * spec_.lr_decay),
                             .coupled = decay_of(spec_, span),
                             .eps = spec_.eps});
  }
  void step(std::span<const Place> places) const override { run<kernels::AdagradRule>(places); }

 private:
  OptimSpec spec_;
};

class RmspropStep : public ElementRule {
 public:
  explicit RmspropStep(const OptimSpec& spec) : spec_(spec) {}
  std::vector<StateSlot> slots(const Span& span) const override {
    if (spec_.momentum == 0) return {element_slot("v", span)};
    return {element_slot("v", span), element_slot("momentum", span)};
  }
  std::size_t number_bytes() const override { return sizeof(kernels::RmspropRule); }
  void prepare(const Span& span, const StepPass& pass, std::byte* numbers) const override {
    store_numbers(numbers,
                  kernels::RmspropRule{.grad_scale = pass.grad_scale,
                                       .lr = pass.lr,
                                       .coupled = decay_of(spec_, span),
                                       .beta2 = spec_.beta2,
                                       .momentum = spec_.momentum,
                                       .eps = spec_.eps});
  }
  void step(std::span<const Place> places) const override { run<kernels::RmspropRule>(places); }

 private:
  OptimSpec spec_;
};

class SignStep : public ElementRule {
 public:
  explicit SignStep(const OptimSpec& spec) : spec_(spec) {}
  std::vector<StateSlot> slots(const Span& span) const override {
    if (spec_.momentum == 0) return {};
    return {element_slot("momentum", span)};
  }
  std::size_t number_bytes() const override { return sizeof(kernels::SignRule); }
  void prepare(const Span& span, const StepPass& pass, std::byte* numbers) const override {
    store_numbers(numbers,
                  kernels::SignRule{.grad_scale = pass.grad_scale,
                                    .lr = pass.lr,
                                    .decay = pass.lr * decay_of(spec_, span),
                                    .momentum = spec_.momentum});
  }
  void step(std::span<const Place> places) const override { run<kernels::SignRule>(places); }

 private:
  OptimSpec spec_;
};

}  // namespace

std::unique_ptr<StepRule> make_elementwise_rule(const OptimSpec& spec) {
  switch (spec.name) {
    case OptimName::sgdw:
    case OptimName::sgd:
      return std::make_unique<SgdStep>(spec);
    case OptimName::lion:
      return std::make_unique<LionStep>(spec);
    case OptimName::adagrad:
      return std::make_unique<AdagradStep>(spec);
    case OptimName::rmsprop:
      return std::make_unique<RmspropStep>(spec);
    case OptimName::signsgd:
      return std::make_unique<SignStep>(spec);
    default:
      return std::make_unique<AdamStep>(spec, AdamNumbers{spec.beta1, spec.beta2, spec.eps}, 1);
  }
}

std::unique_ptr<StepRule> make_adam_rule_beside_muon(const OptimSpec& spec) {
  // Both learning rates follow one schedule, which is given for Muon's.
  const double factor = spec.lr == 0 ? 0 : spec.muon_adam_lr / spec.lr;
  return std::make_unique<AdamStep>(
      spec, AdamNumbers{spec.muon_adam_beta1, spec.muon_adam_beta2, spec.muon_adam_eps}, factor);
}

}  // namespace norma
