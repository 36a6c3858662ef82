// The plain rule of attention, with head factors of their own.
#pragma once

#include "norma/kernels/attention.h"

namespace norma::test {

using kernels::AttentionShape;

inline AttentionShape plain_shape(
    Index batch, Index tokens, Index heads, Index kv_heads, Index width, bool causal) {
  return {.batch = batch,
          .queries = tokens,
          .keys = tokens,
          .key_rows = tokens,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_width = width,
          .causal = causal,
          .log_length = false,
          .softcap = 0,
          .lengths = nullptr,
          .uniform_factor = 0};
}

}  // namespace norma::test
