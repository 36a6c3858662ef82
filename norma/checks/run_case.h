// Runs one case of one op through every generic check.
#pragma once

#include <cstdint>
#include <string>

#include "norma/checks/problem.h"

namespace norma::checks {

struct CaseId {
  Shape size;
  std::string variant;
  Condition condition = Condition::plain;
  std::uint64_t seed = 1;
};

struct CaseResult {
  double gradient_gap = 0;     // f64 rule against differences, where these can tell
  double forward_error = 0;    // f32 against f64; on a GPU, the type under test
  double gradient_error = 0;   // f32 against f64
  double parameter_error = 0;  // on a GPU in bf16: of gradients that are sums in f32
  double scale_error = 0;      // |⟨got, want⟩ / ⟨want, want⟩ − 1| of whole tensors
  double composed_gap = 0;     // fused against composed, f64
  /// Inputs whose gradient was compared with differences, and those where rounding of the function
  /// values hides what the input does (a bias beside 1e15).
  std::vector<std::string> judged;
  std::vector<std::string> unjudged;
  std::string failure;  // empty: passed; otherwise what went wrong and the command to rerun
};

/// f64 gradient against differences; f32 against f64; composed definition; inputs untouched;
/// backward twice; strided rows; one thread against two.
CaseResult run_case(const OpCheck& check, const CaseId& id);

/// Only the first of these.
CaseResult run_f64_case(const OpCheck& check, const CaseId& id);

/// What the gradient check sees when one gradient of the op is off by a factor.
struct FaultOutcome {
  bool planted = false;  // the op has such an input and its gradient was wanted
  double gradient_gap = 0;
};
FaultOutcome plant_fault(const OpCheck& check, const CaseId& id, const Fault& fault);

/// All cases of an op: sizes × variants, then conditions × condition_sizes × variants.
std::vector<CaseId> cases_of(const OpCheck& check, std::uint64_t seed, bool gpu = false);

/// "norma check rms_norm --variant per_head --shape 3x257 --condition offset --seed 7"
std::string repro(const OpCheck& check, const CaseId& id);

}  // namespace norma::checks
