#include "norma/kernels/sum_work.h"
#include "norma/optim/step_elements.h"

namespace norma {

namespace {

/// Coupled SGD whose gradient is first multiplied, tensor by tensor, by
/// trust·|w| / (|g| + decay·|w| + eps); by 1 where a norm is 0 and for tensors of one dimension.
class LarsStep : public ElementRule {
 public:
  explicit LarsStep(const OptimSpec& spec) : spec_(spec) {}
  std::vector<StateSlot> slots(const Span& span) const override {
    if (spec_.momentum == 0) return {};
    return {{"momentum", span.count, true}};
  }
  bool merges() const override { return false; }

  std::size_t number_bytes() const override { return sizeof(kernels::SgdRule); }
  void prepare(const Span& span, const StepPass& pass, std::byte* numbers) const override {
    store_numbers(numbers,
                  kernels::SgdRule{.grad_scale = pass.grad_scale,
                                   .lr = pass.lr,
                                   .decay = 0,
                                   .coupled = span.tags.decay ? spec_.weight_decay : 0,
                                   .momentum = spec_.momentum,
                                   .damping = spec_.damping,
                                   .nesterov = spec_.nesterov,
                                   .first = pass.t == 1,
                                   .caution = false,
                                   .caution_factor = 1});
  }
  void step(std::span<const Place> places) const override {
    for (const Place& place : places) {
      if (place.span->rank >= 2) trust(place);
    }
    run<kernels::SgdRule>(places);
  }

 private:
  void trust(const Place& place) const {
    with_kernels(place.w, [&]<class T>(auto who, T) {
      const Index count = place.span->count;
      double* weight_norm = place.scalars;
      kernels::squares_then(
          who, place.w.as<const T>(), count, place.partials, kernels::StoreNorm{weight_norm});
      kernels::squares_then(who,
                            place.g.as<const T>(),
                            count,
                            place.partials,
                            kernels::TrustRatio{.weight_norm = weight_norm,
                                                .clip = place.clip,
                                                .trust = spec_.trust,
                                                .eps = spec_.eps,
                                                .rule = place.numbers_as<kernels::SgdRule>()});
    });
  }

  OptimSpec spec_;
};

}  // namespace

std::unique_ptr<StepRule> make_lars_rule(const OptimSpec& spec) {
  return std::make_unique<LarsStep>(spec);
}

}  // namespace norma
