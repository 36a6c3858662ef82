// What holds of weights outside of the step of an optimizer, or after a step that does not see to
// it itself.
#pragma once

#include <vector>

#include "norma/nn/param_store.h"
#include "norma/optim/step_rule.h"

namespace norma {

/// Makes all vectors of unit parameters unit and shortens those of row_max parameters, frozen ones
/// too. For use after initialization and after loading; frobenius and spectral take the weights as
/// they are.
void apply_constraints(ParamStore& params);

/// The largest | |w| − 1 | over all vectors of unit parameters; 0 when there are none.
double unit_norm_error(const ParamStore& params);

// For the optimizer.

/// The radius that frobenius and spectral keep, and the singular vector that spectral follows.
std::vector<StateSlot> constraint_slots(const Span& span);
/// Elements of scratch memory.
Index constraint_scratch(const Span& span);
/// Takes the radius from the weights; `first` is the index of the constraint's first slot.
void start_constraint(const Place& place, std::size_t first);
/// Unit and row_max.
void keep_vectors(const Place& place);
/// Frobenius and spectral: scales the whole matrix back to its radius.
void keep_norm(const Place& place, std::size_t first);

}  // namespace norma
