// Attention in bf16 for the plain rule has two fast ways: cuDNN's kernels and ours for Hopper.
#pragma once

#include "norma/kernels/attention.h"

namespace norma::kernels {

/// Queues attention in the faster way, which is found out once for each shape and kept
/// (device/choices.h), and says true; or says false where neither can.
bool quick_attention(const AttentionForward<Bf16>& a);

}  // namespace norma::kernels
