#include "norma/optim/step_rule.h"

namespace norma {

namespace {

/// Riemannian Adam: every vector of a UNIT parameter is a sphere with one second moment.
class SphereStep : public StepRule {
 public:
  explicit SphereStep(const OptimSpec& spec) : spec_(spec) {}
  std::vector<StateSlot> slots(const Span& span) const override {
    const Index vectors = span.tags.axis == VectorAxis::columns ? span.cols : span.rows;
    return {{"m", span.count, true}, {"v", vectors, false}};
  }
  bool merges() const override { return false; }
  bool steps_together() const override { return true; }

  std::size_t number_bytes() const override { return sizeof(kernels::SphereRule); }
  void prepare(const Span&, const StepPass& pass, std::byte* numbers) const override {
    store_numbers(numbers,
                  kernels::SphereRule{.grad_scale = pass.grad_scale,
                                      .lr = pass.lr,
                                      .beta1 = spec_.beta1,
                                      .beta2 = spec_.beta2,
                                      .eps = spec_.eps,
                                      .t = pass.t});
  }
  void step(std::span<const Place> places) const override {
    with_kernels(places.front().w, [&]<class T>(auto who, T) {
      kernels::Together<kernels::SphereAdam<T>> steps{};
      for (const Place& place : places) {
        steps.add({.w = place.w.as<T>(),
                   .g = place.g.as<const T>(),
                   .m = place.slot<T>(0),
                   .v = place.slot<T>(1),
                   .layout = place.layout(),
                   .rule = place.numbers_as<const kernels::SphereRule>(),
                   .geodesic = spec_.retraction == Retraction::exponential,
                   .parallel = spec_.transport == Transport::parallel,
                   .lazy = place.span->lazy,
                   .clip = place.clip,
                   .copy = place.copy});
      }
      kernels::run(who, steps);
    });
  }

 private:
  OptimSpec spec_;
};

}  // namespace

std::unique_ptr<StepRule> make_sphere_rule(const OptimSpec& spec) {
  return std::make_unique<SphereStep>(spec);
}

}  // namespace norma
