#include "norma/kernels/cuda/cudnn_attention.h"

namespace norma::kernels {

bool cudnn_attention(const AttentionForward<Bf16>& /*a*/) { return false; }

}  // namespace norma::kernels
