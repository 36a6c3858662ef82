// Attention and its gradient in bf16 on Hopper's tensor cores: heads of up to 128 in eights, causal
// or full, any head factors; no softcap, no padding, as many keys as queries. Both say true, or
// false where rule, GPU or alignment are not those.
#pragma once

#include "norma/kernels/attention.h"

namespace norma::kernels {

bool wgmma_attention(const AttentionForward<Bf16>& a);
/// Queues <dout, o> of each row into scratch, then dq, dk, dv and each row's share in dhead_factor.
bool wgmma_attention(const AttentionBackward<Bf16>& a);

}  // namespace norma::kernels
