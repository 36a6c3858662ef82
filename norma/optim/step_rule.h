// What an optimizer does to one span. Rules read tags and numbers; which kernels compute is decided
// in with_kernels alone.
#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "norma/base/error.h"
#include "norma/device/device.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/vectors.h"
#include "norma/optim/span.h"
#include "norma/tensor/planning.h"

namespace norma {

/// One kind of state of a span.
struct StateSlot {
  std::string_view name;
  Index count = 0;
  bool per_element = true;  // as many as elements, and so divided among the span's parameters
};

/// Where a span lies: its weights, gradients, states and the scratch memory of the optimizer.
struct Place {
  static constexpr std::size_t kMostSlots = 5;
  static constexpr Index kScalars = 2;
  const Span* span = nullptr;
  Tensor w;  // the flat elements of the span
  Tensor g;
  std::array<std::byte*, kMostSlots> slots{};
  std::size_t rule_slots = 0;  // the first ones are the rule's, the others the constraint's
  std::byte* scratch = nullptr;
  double* partials = nullptr;    // (norm_pieces(span.count))
  double* scalars = nullptr;     // (kScalars), scratch too
  std::byte* numbers = nullptr;  // what the rule prepared for this step
  const double* clip = nullptr;  // a factor of the gradient; null: 1
  Bf16* copy = nullptr;          // working copies of the weights, for kernels on a GPU to write
  kernels::Keep keep = kernels::Keep::nothing;

  template <class T>
  T* slot(std::size_t index) const {
    return reinterpret_cast<T*>(slots[index]);
  }
  /// The rule's own state of that number; null where it has fewer.
  template <class T>
  T* rule_slot(std::size_t index) const {
    return index < rule_slots ? slot<T>(index) : nullptr;
  }
  template <class T>
  T* scratch_as() const {
    return reinterpret_cast<T*>(scratch);
  }
  template <class Numbers>
  Numbers* numbers_as() const {
    return reinterpret_cast<Numbers*>(numbers);
  }
  kernels::VectorLayout layout() const {
    return {span->rows, span->cols, span->tags.axis == VectorAxis::columns};
  }
};

/// As many as a rule is given at once.
inline constexpr std::size_t kMostPlaces = kernels::kMostTogether;

/// One step: the learning rate of the span, the factor of its gradient, and t from 1.
struct StepPass {
  double lr = 0;
  double grad_scale = 1;
  Index t = 1;
};

/// What a rule does has two parts. prepare() works out the numbers of a step on the host; step()
/// reads them where the weights are, and so can be recorded as a graph on a GPU and replayed with
/// other numbers. It never waits.
class StepRule {
 public:
  StepRule() = default;
  virtual ~StepRule() = default;
  StepRule(const StepRule&) = delete;
  StepRule& operator=(const StepRule&) = delete;

  virtual std::vector<StateSlot> slots(const Span& span) const = 0;
  /// Elements of scratch memory.
  virtual Index scratch(const Span&) const { return 0; }
  /// Whether a span may hold several parameters.
  virtual bool merges() const { return true; }
  /// Whether the step itself keeps the vectors that place.keep names.
  virtual bool keeps_vectors() const { return true; }
  /// Multiplies the learning rate of the step.
  virtual double lr_factor() const { return 1; }
  /// Fills states that do not start at zero.
  virtual void start(const Place&) const {}
  /// Bytes of the numbers of a step; a multiple of 8.
  virtual std::size_t number_bytes() const = 0;
  virtual void prepare(const Span& span, const StepPass& pass, std::byte* numbers) const = 0;
  /// Whether several spans may be stepped at once. Each then has scratch memory of its own.
  virtual bool steps_together() const { return false; }
  /// Steps all of them, at most kMostPlaces: one, or several of one shape and constraint that share
  /// nothing but what `partials` and `scalars` point to. May change their numbers.
  virtual void step(std::span<const Place> places) const = 0;
};

template <class Numbers>
void store_numbers(std::byte* to, const Numbers& numbers) {
  static_assert(std::is_trivially_copyable_v<Numbers> && sizeof(Numbers) % sizeof(double) == 0);
  std::memcpy(to, &numbers, sizeof numbers);
}

/// Calls f(who, T{}) with the kernels for this tensor; nothing is called while planning.
template <class F>
void with_kernels(const Tensor& like, F&& f) {
  if (planning()) return;
  if (like.device.kind == DeviceKind::cuda) {
    if constexpr (device::kBuiltWithCuda) {
      if (like.dtype == DType::f32) return f(kernels::Cuda{}, float{});
    }
    throw RequestError("an optimizer steps parameters in f32 on a GPU.");
  }
  if (like.dtype == DType::f64) {
    f(kernels::Ref{}, double{});
  } else if (like.dtype == DType::f32) {
    f(kernels::Cpu{}, float{});
  } else {
    throw RequestError("an optimizer steps parameters in f32 or f64 on the CPU.");
  }
}

/// The rule of every parameter, chosen by its tags.
class RuleBook {
 public:
  explicit RuleBook(const OptimSpec& spec);
  const StepRule& rule_for(const Param& param) const;

 private:
  OptimSpec spec_;
  std::unique_ptr<StepRule> main_;
  std::unique_ptr<StepRule> hidden_;  // for hidden matrices (Muon, Hyperball), or spheres
};

// The rules, by page.
std::unique_ptr<StepRule> make_elementwise_rule(const OptimSpec& spec);  // elementwise_rules.cpp
std::unique_ptr<StepRule> make_adam_rule_beside_muon(const OptimSpec& spec);
std::unique_ptr<StepRule> make_lars_rule(const OptimSpec& spec);            // lars.cpp
std::unique_ptr<StepRule> make_sphere_rule(const OptimSpec& spec);          // sphere_rule.cpp
std::unique_ptr<StepRule> make_muon_rule(const OptimSpec& spec);            // muon.cpp
std::unique_ptr<StepRule> make_hyperball_adam_rule(const OptimSpec& spec);  // muon.cpp

}  // namespace norma
