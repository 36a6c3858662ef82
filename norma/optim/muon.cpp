// Muon, and the Hyperball around Muon and Adam: rules that work out the direction of a whole matrix
// before it moves.
#include <algorithm>
#include <cmath>

#include "norma/kernels/direction.h"
#include "norma/kernels/sum_work.h"
#include "norma/optim/step_elements.h"

namespace norma {

namespace {

using kernels::MoveRule;
using kernels::Quintic;
constexpr std::size_t kMostSteps = kernels::Orthogonalize<float>::kMostSteps;

// Coefficients as published: KellerJordan/Muon; timm's quintic; Polar Express.
constexpr std::array<Quintic, 1> kNs5{{{3.4445, -4.7750, 2.0315}}};
constexpr std::array<Quintic, 5> kQuintic{{{4.0848, -6.8946, 2.9270},
                                           {3.9505, -6.3029, 2.6377},
                                           {3.7418, -5.5913, 2.3037},
                                           {2.8769, -3.1427, 1.2046},
                                           {2.8366, -3.0525, 1.2012}}};
constexpr std::array<Quintic, 5> kPolarExpress{
    {{8.156554524902461, -22.48329292557795, 15.878769915207462},
     {4.042929935166739, -2.808917465908714, 0.5000178451051316},
     {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
     {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
     {2.3465413258596377, -1.7097828382687081, 0.42323551169305323}}};

/// The list, its last triple repeated.
template <std::size_t kCount>
std::array<Quintic, kMostSteps> repeated(const std::array<Quintic, kCount>& list) {
  std::array<Quintic, kMostSteps> all{};
  for (std::size_t i = 0; i < kMostSteps; ++i) all[i] = list[i < kCount ? i : kCount - 1];
  return all;
}

/// The direction of a matrix is worked out in scratch memory; then the matrix moves along it.
class DirectionRule : public StepRule {
 public:
  explicit DirectionRule(const OptimSpec& spec) : spec_(spec) {}
  bool merges() const override { return false; }
  bool keeps_vectors() const override { return false; }
  /// Its scratch memory is as large as the matrix and more, so there is one for all.
  void step(std::span<const Place> places) const final {
    for (const Place& place : places) step_matrix(place);
  }
  virtual void step_matrix(const Place& place) const = 0;
  void start(const Place& place) const override {
    if (!spec_.hyperball) return;
    with_kernels(place.w, [&]<class T>(auto who, T) {
      squares_of(who,
                 place,
                 place.w.as<const T>(),
                 kernels::StoreRadius<T>{place.slot<T>(radius_slot()), true});
    });
  }

 protected:
  virtual std::size_t radius_slot() const = 0;
  /// work(|x|²)
  template <class Who, class T, class Work>
  static void squares_of(Who who, const Place& place, const T* x, const Work& work) {
    kernels::squares_then(who, x, place.span->count, place.partials, work);
  }
  /// W ← R·(W − lr·R·u/|u|)/|·|
  template <class Who, class T>
  void hyperball_step(Who who, const Place& place, MoveRule* rule, const T* u) const {
    const T* radius = place.slot<T>(radius_slot());
    squares_of(who, place, u, kernels::MoveByRadius<T>{radius, rule});
    kernels::run(who,
                 kernels::DirectionStep<T>{.w = place.w.as<T>(),
                                           .u = u,
                                           .count = place.span->count,
                                           .rule = rule,
                                           .cautious = false});
    double* factor = place.scalars;
    squares_of(who,
               place,
               place.w.as<const T>(),
               kernels::RestoreRadius<T>{
                   .radius = radius, .squared = true, .moved = rule, .factor = factor});
    kernels::run(who, kernels::ScaleBy<T>{place.w.as<T>(), place.span->count, factor, place.copy});
  }
  OptimSpec spec_;
};

class MuonStep : public DirectionRule {
 public:
  explicit MuonStep(const OptimSpec& spec)
      : DirectionRule(spec),
        normuon_(spec.muon_norm == MuonNorm::normuon),
        polar_(spec.muon_coefficients == MuonCoefficients::polar_express),
        quintics_(polar_ ? repeated(kPolarExpress)
                         : (spec.muon_coefficients == MuonCoefficients::quintic ? repeated(kQuintic)
                                                                                : repeated(kNs5))) {
  }

  std::vector<StateSlot> slots(const Span& span) const override {
    std::vector<StateSlot> all{{"momentum", span.count, true}};
    if (normuon_) all.push_back({"nu", std::max(span.rows, span.cols), false});
    if (spec_.hyperball) all.push_back({"radius", 1, false});
    return all;
  }
  Index scratch(const Span& span) const override {
    return std::max(span.count + kernels::orthogonalize_scratch(span.rows, span.cols),
                    column_scratch(span));
  }

  std::size_t number_bytes() const override { return sizeof(MoveRule); }
  void prepare(const Span& span, const StepPass& pass, std::byte* numbers) const override {
    store_numbers(numbers,
                  MoveRule{.grad_scale = pass.grad_scale,
                           .lr = pass.lr,
                           .factor = pass.lr * shape_factor(span),
                           .decay = span.tags.decay ? pass.lr * spec_.weight_decay : 0});
  }
  void step_matrix(const Place& place) const override {
    with_kernels(place.w, [&]<class T>(auto who, T) {
      const Span& span = *place.span;
      auto* rule = place.numbers_as<MoveRule>();
      T* u = place.scratch_as<T>();
      kernels::run(who,
                   kernels::MomentumDirection<T>{.g = place.g.as<const T>(),
                                                 .m = place.slot<T>(0),
                                                 .u = u,
                                                 .count = span.count,
                                                 .rule = rule,
                                                 .beta = spec_.momentum,
                                                 .nesterov = spec_.muon_nesterov,
                                                 .clip = place.clip});
      kernels::run(who,
                   kernels::Orthogonalize<T>{.x = u,
                                             .rows = span.rows,
                                             .cols = span.cols,
                                             .quintics = quintics_,
                                             .steps = spec_.muon_steps,
                                             .safety = polar_ ? 1.02 : 1,
                                             .floor = polar_ ? 1e-6 : 1e-7,
                                             .scratch = u + span.count,
                                             .partials = place.partials,
                                             .factor = place.scalars,
                                             .coarse = place.copy != nullptr});
      if (normuon_) normalize(who, place, u);
      if (spec_.hyperball) {
        hyperball_step(who, place, rule, static_cast<const T*>(u));
        return;
      }
      kernels::run(who,
                   kernels::DirectionStep<T>{.w = place.w.as<T>(),
                                             .u = u,
                                             .count = span.count,
                                             .rule = rule,
                                             .cautious = spec_.muon_cautious_decay,
                                             .copy = place.copy});
    });
  }

 private:
  std::size_t radius_slot() const override { return normuon_ ? 2 : 1; }

  /// One second moment per row (per column of a wide matrix); the Frobenius norm stays.
  template <class Who, class T>
  void normalize(Who who, const Place& place, T* u) const {
    const Span& span = *place.span;
    double* before = place.scalars;
    double* factor = place.scalars + 1;
    squares_of(who, place, static_cast<const T*>(u), kernels::StoreNorm{before});
    kernels::run(
        who,
        kernels::NormalizeDirection<T>{.o = u,
                                       .nu = place.slot<T>(1),
                                       .layout = {span.rows, span.cols, span.cols > span.rows},
                                       .beta2 = spec_.muon_norm_beta2});
    squares_of(who, place, static_cast<const T*>(u), kernels::RestoreNorm{before, factor});
    kernels::run(who, kernels::ScaleBy<T>{u, span.count, factor});
  }

  double shape_factor(const Span& span) const {
    const auto rows = static_cast<double>(span.rows);
    const auto cols = static_cast<double>(span.cols);
    switch (spec_.muon_scale) {
      case MuonScale::match_adamw_rms:
        return 0.2 * std::sqrt(std::max(rows, cols));
      case MuonScale::rms_to_rms:
        return std::sqrt(rows / cols);
      case MuonScale::original:
        break;
    }
    return std::sqrt(std::max(1.0, rows / cols));
  }

  bool normuon_;
  bool polar_;
  std::array<Quintic, kMostSteps> quintics_;
};

class HyperballAdamStep : public DirectionRule {
 public:
  using DirectionRule::DirectionRule;
  std::vector<StateSlot> slots(const Span& span) const override {
    return {{"m", span.count, true}, {"v", span.count, true}, {"radius", 1, false}};
  }
  Index scratch(const Span& span) const override {
    return std::max(span.count, column_scratch(span));
  }

  std::size_t number_bytes() const override { return sizeof(Numbers); }
  void prepare(const Span&, const StepPass& pass, std::byte* numbers) const override {
    store_numbers(numbers,
                  Numbers{.adam = {.grad_scale = pass.grad_scale,
                                   .lr = 0,
                                   .decay = 0,
                                   .coupled = 0,
                                   .beta1 = spec_.beta1,
                                   .beta2 = spec_.beta2,
                                   .eps = spec_.eps,
                                   .t = pass.t},
                          .move = {.grad_scale = 1, .lr = pass.lr, .factor = 0, .decay = 0}});
  }
  void step_matrix(const Place& place) const override {
    with_kernels(place.w, [&]<class T>(auto who, T) {
      auto* numbers = place.numbers_as<Numbers>();
      T* u = place.scratch_as<T>();
      kernels::run(who,
                   kernels::AdamDirection<T>{.g = place.g.as<const T>(),
                                             .m = place.slot<T>(0),
                                             .v = place.slot<T>(1),
                                             .u = u,
                                             .count = place.span->count,
                                             .rule = &numbers->adam,
                                             .clip = place.clip});
      hyperball_step(who, place, &numbers->move, static_cast<const T*>(u));
    });
  }

 private:
  struct Numbers {
    kernels::AdamRule adam;
    kernels::MoveRule move;
  };
  std::size_t radius_slot() const override { return 2; }
};

}  // namespace

std::unique_ptr<StepRule> make_muon_rule(const OptimSpec& spec) {
  return std::make_unique<MuonStep>(spec);
}

std::unique_ptr<StepRule> make_hyperball_adam_rule(const OptimSpec& spec) {
  return std::make_unique<HyperballAdamStep>(spec);
}

}  // namespace norma
