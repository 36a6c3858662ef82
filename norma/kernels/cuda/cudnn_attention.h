// Attention forward through cuDNN, for the plain rule: bf16, no softcap, no padding, one factor for
// all heads. (Its backward that gives the same bits every time keeps a square of queries by keys,
// so ours is used.) Built without cuDNN, no_cudnn.cpp answers.
#pragma once

#include <cstddef>

#include "norma/kernels/attention.h"

namespace norma::kernels {

/// Queues the attention and says true, or says false where cuDNN has no kernel for it.
bool cudnn_attention(const AttentionForward<Bf16>& a);
/// Of the library that is loaded; 0 without one.
std::size_t cudnn_version();

}  // namespace norma::kernels
