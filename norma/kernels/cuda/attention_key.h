// What tells attentions apart for whoever keeps something by shape: sizes, mask and strides.
#pragma once

#include <array>

#include "norma/kernels/attention.h"

namespace norma::kernels {

using AttentionKey = std::array<Index, 10>;
inline AttentionKey key_of(const AttentionForward<Bf16>& a) {
  const AttentionShape& s = a.shape;
  return {s.batch,
          s.queries,
          s.heads,
          s.kv_heads,
          s.head_width,
          s.causal ? 1 : 0,
          a.q.stride,
          a.k.stride,
          a.v.stride,
          a.o.stride};
}

}  // namespace norma::kernels
