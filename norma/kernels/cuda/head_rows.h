// Before and after the product of HeadOdds, row by row.
#pragma once

#include "norma/kernels/head_odds.h"

namespace norma::kernels {

struct OddsNotes;

/// References, from the logits of targets; nothing is in excess, and no logit is the largest yet.
void compare_with_targets(const HeadOdds<Bf16>& a, const OddsNotes& notes);
/// Losses, shares, shared_x, and the odds of targets.
void finish_odds(const HeadOdds<Bf16>& a, const OddsNotes& notes);

}  // namespace norma::kernels
