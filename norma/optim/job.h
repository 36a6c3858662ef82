// What an optimizer has to do: the spans of a store with their rules, and which of them are stepped
// at once. Nothing here depends on the device.
#pragma once

#include <span>
#include <vector>

#include "norma/optim/step_rule.h"

namespace norma {

/// One span with its rule, and where the optimizer's own memory for it lies.
struct Job {
  Span span;
  const StepRule* rule = nullptr;
  bool capped = false;           // the angle of its vectors is bounded
  std::vector<StateSlot> slots;  // the rule's, then the constraint's
  std::size_t constraint_slot = 0;
  std::array<std::size_t, Place::kMostSlots> at{};  // byte offsets of the slots
  std::size_t numbers_at = 0;                       // byte offset of its numbers
  std::size_t scratch_at = 0;                       // byte offset of its scratch memory
};

/// A job for every parameter that is not frozen, or for neighbours that merge, in their order.
std::vector<Job> jobs_of(const ParamStore& params, const OptimSpec& spec, const RuleBook& rules);

/// Jobs by their index, every one in one batch. Those of a batch go to their rule together.
std::vector<std::vector<std::size_t>> batches_of(std::span<const Job> jobs);

}  // namespace norma
