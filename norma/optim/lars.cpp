#include <cmath>

#include "norma/kernels/optimizer.h"
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

  void step(const Place& place, const StepPass& pass) const override {
    const double decay = place.span->tags.decay ? spec_.weight_decay : 0;
    const double ratio = place.span->rank < 2 ? 1 : trust_ratio(place, pass, decay);
    run(place,
        kernels::SgdRule{.grad_scale = pass.grad_scale * ratio,
                         .lr = pass.lr,
                         .decay = 0,
                         .coupled = decay * ratio,
                         .momentum = spec_.momentum,
                         .damping = spec_.damping,
                         .nesterov = spec_.nesterov,
                         .first = pass.t == 1,
                         .caution = false,
                         .caution_factor = 1});
  }

 private:
  double trust_ratio(const Place& place, const StepPass& pass, double decay) const {
    double ratio = 1;
    with_kernels(place.w, [&]<class T>(auto who, T) {
      const auto norm = [&](const Tensor& of) {
        return std::sqrt(
            kernels::squared_norm(who, of.as<const T>(), place.span->count, place.partials));
      };
      const double weight = norm(place.w);
      const double gradient = pass.grad_scale * norm(place.g);
      if (weight > 0 && gradient > 0) {
        ratio = spec_.trust * weight / (gradient + decay * weight + spec_.eps);
      }
    });
    return ratio;
  }

  OptimSpec spec_;
};

}  // namespace

std::unique_ptr<StepRule> make_lars_rule(const OptimSpec& spec) {
  return std::make_unique<LarsStep>(spec);
}

}  // namespace norma
