// Attention's gradient in bf16 on Hopper's tensor cores: heads of up to 128 in eights, causal or
// full, any head factors; no softcap, no padding, as many keys as queries.
#pragma once

#include "norma/kernels/attention.h"

namespace norma::kernels {

/// Queues <dout, o> of each row into scratch, then dq, dk, dv and each row's share in dhead_factor,
/// and says true; or says false where rule, GPU or alignment are not those.
bool wgmma_attention(const AttentionBackward<Bf16>& a);

}  // namespace norma::kernels
