#include "norma/kernels/cuda/cudnn_attention.h"

namespace norma::kernels {

bool cudnn_attention(const AttentionForward<Bf16>& /*a*/) { return false; }
std::size_t cudnn_version() { return 0; }

}  // namespace norma::kernels
