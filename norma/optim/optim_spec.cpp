#include "norma/optim/optim_spec.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "norma/base/error.h"
#include "norma/base/text.h"

namespace norma {

namespace {

struct Default {
  std::string_view option;
  double value = kUnset;  // unset for words and flags
};

/// What one optimizer uses beyond kCommon, and its own numbers.
struct Uses {
  OptimName name;
  std::array<Default, 16> options;
};

// The numbers are those of spec.md §4; where it has none, of the reference named in
// docs/optimizers.md.
constexpr Default kMomentum{"momentum", 0.9};
constexpr Default kNoDecay{"weight_decay", 0};
constexpr Default kBeta1{"beta1", 0.9};
constexpr Default kBeta2{"beta2", 0.999};
constexpr Default kEps{"eps", 1e-8};
constexpr std::array<Uses, 13> kUses{{
    {OptimName::sgdw,
     {{{"lr", 1e-3},
       kNoDecay,
       kMomentum,
       {"damping", 0},
       {"nesterov"},
       {"caution"},
       {"corrected_decay"}}}},
    {OptimName::sgd, {{{"lr", 1e-3}, kNoDecay, kMomentum, {"damping", 0}, {"nesterov"}}}},
    {OptimName::adamw,
     {{{"lr", 1e-3}, {"weight_decay", 0.01}, kBeta1, kBeta2, kEps, {"hyperball"}}}},
    {OptimName::adam, {{{"lr", 1e-3}, kNoDecay, kBeta1, kBeta2, kEps}}},
    {OptimName::gated_adamw,
     {{{"lr", 1e-3},
       {"weight_decay", 0.01},
       kBeta1,
       kBeta2,
       {"eps", 1e-12},
       {"gate", 0.5},
       {"eps_gate", 1e-8}}}},
    {OptimName::lion, {{{"lr", 1e-4}, kNoDecay, kBeta1, {"beta2", 0.99}}}},
    {OptimName::adagrad, {{{"lr", 1e-2}, kNoDecay, {"lr_decay", 0}, {"eps", 1e-10}}}},
    {OptimName::rmsprop, {{{"lr", 1e-2}, kNoDecay, {"beta2", 0.99}, {"momentum", 0}, kEps}}},
    {OptimName::signsgd, {{{"lr", 1e-4}, kNoDecay, {"momentum", 0}}}},
    {OptimName::lars,
     {{{"lr", 1}, kNoDecay, kMomentum, {"damping", 0}, {"nesterov"}, {"trust", 1e-3}, kEps}}},
    {OptimName::muon,
     {{{"lr", 0.02},
       kNoDecay,
       {"momentum", 0.95},
       {"hyperball"},
       {"muon_scale"},
       {"muon_coefficients"},
       {"muon_steps"},
       {"muon_nesterov"},
       {"muon_norm"},
       {"muon_norm_beta2", 0.95},
       {"muon_cautious_decay"},
       {"muon_adam_lr", 3e-4},
       {"muon_adam_beta1", 0.9},
       {"muon_adam_beta2", 0.95},
       {"muon_adam_eps", 1e-10}}}},
    {OptimName::riemannian_adam,
     {{{"lr", 1e-3}, kBeta1, kBeta2, kEps, {"transport"}, {"retraction"}}}},
    {OptimName::tangent_adam, {{{"lr", 1e-3}, kNoDecay, kBeta1, kBeta2, kEps}}},
}};

constexpr std::array<std::string_view, 10> kCommon = {"name",
                                                      "lazy_rows",
                                                      "angular_cap",
                                                      "lr_embedding",
                                                      "lr_hidden",
                                                      "lr_head",
                                                      "lr_scale",
                                                      "lr_gain",
                                                      "clip",
                                                      "clip_bound"};

const Uses& uses_of(OptimName name) {
  return *std::find_if(
      kUses.begin(), kUses.end(), [&](const Uses& uses) { return uses.name == name; });
}

const Default* find(const Uses& uses, std::string_view option) {
  const auto* hit =
      std::find_if(uses.options.begin(), uses.options.end(), [&](const Default& candidate) {
        return candidate.option == option;
      });
  return hit == uses.options.end() ? nullptr : &*hit;
}

/// Looks at every field of a spec beside the same field of an untouched one.
class Filler {
 public:
  explicit Filler(OptimName name) : uses_(uses_of(name)) {
    OptimSpec untouched;
    untouched.fields([&](std::string_view, auto& value, auto&&...) { note(value); });
  }

  template <class V>
  void operator()(std::string_view option, V& value, std::string_view, Range range = {}) {
    const Default* own = find(uses_, option);
    const bool common = std::find(kCommon.begin(), kCommon.end(), option) != kCommon.end();
    if (own == nullptr && !common && differs(value)) {
      throw RequestError(
          say("optim: ", word_of(uses_.name), " does not use ", option, "; leave it out."));
    }
    ++next_;
    if constexpr (std::is_same_v<V, double> || std::is_same_v<V, Index>) {
      const auto number = static_cast<double>(value);
      if (std::isnan(number) && std::isnan(defaults_[next_ - 1])) {
        if constexpr (std::is_same_v<V, double>) value = own == nullptr ? kUnset : own->value;
      } else if (!(number >= range.least && number <= range.most)) {
        throw RequestError(say("optim: ",
                               option,
                               " must be between ",
                               range.least,
                               " and ",
                               range.most,
                               ", got ",
                               number,
                               "."));
      }
    }
  }

 private:
  template <class V>
  static double as_number(const V& value) {
    return static_cast<double>(value);
  }
  template <class V>
  void note(const V& value) {
    defaults_[next_default_++] = as_number(value);
  }
  template <class V>
  bool differs(const V& value) const {
    const double before = defaults_[next_];
    const double now = as_number(value);
    return std::isnan(before) ? !std::isnan(now) : before != now;
  }

  const Uses& uses_;
  std::array<double, 64> defaults_{};
  std::size_t next_default_ = 0;
  std::size_t next_ = 0;
};

[[noreturn]] void refuse(const char* sentence) { throw RequestError(say("optim: ", sentence)); }

}  // namespace

OptimSpec resolved(const OptimSpec& spec) {
  OptimSpec full = spec;
  if (spec.hyperball && std::isnan(spec.weight_decay)) full.weight_decay = 0;
  full.fields(Filler(spec.name));
  if (std::isnan(full.angular_cap)) full.angular_cap = 0;
  if (std::isnan(full.clip_bound)) full.clip_bound = full.clip == ClipMode::agc ? 0.01 : 1;
  if (full.nesterov && !(full.momentum > 0)) {
    refuse("nesterov needs momentum above 0.");
  }
  if (full.nesterov && full.damping != 0) refuse("nesterov needs damping 0.");
  if (full.caution && !(full.momentum > 0)) refuse("caution needs momentum above 0.");
  if (full.hyperball && full.weight_decay != 0) {
    refuse("hyperball keeps the norm of a matrix itself; set weight_decay to 0.");
  }
  if (full.corrected_decay && full.lr == 0) refuse("corrected_decay needs lr above 0.");
  return full;
}

}  // namespace norma
