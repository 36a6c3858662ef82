// Attention in bf16 on the tensor cores, for heads up to 128 wide and every rule.
#pragma once

#include "norma/kernels/attention.h"

namespace norma::kernels {

inline constexpr Index kWidestMma = 128;

void mma_attention(const AttentionForward<Bf16>& a);
/// dq, dk, dv and each row's share in dhead_factor; scratch holds <dout, o> of each row.
void mma_attention(const AttentionBackward<Bf16>& a);

}  // namespace norma::kernels
