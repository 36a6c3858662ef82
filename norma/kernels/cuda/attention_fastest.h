// Attention's gradient by the faster of two ways where both can do it: cuDNN's kernels or ours for
// Hopper.
#pragma once

#include "norma/kernels/attention.h"

namespace norma::kernels {

/// Queues the gradient, but for the sums of the shares in dhead_factor, and says true; or says
/// false where neither can. At a shape's first call both are timed and the faster stays
/// (device/choices.h), so that the bits of a shape are the same in every call and every run.
bool fastest_attention(const AttentionBackward<Bf16>& a);

}  // namespace norma::kernels
