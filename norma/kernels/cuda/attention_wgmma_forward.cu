// Attention itself on Hopper.
#include "norma/kernels/cuda/attention_wgmma.h"
#include "norma/kernels/cuda/attention_wgmma_forward.cuh"
#include "norma/kernels/cuda/tile_maps.cuh"

namespace norma::kernels {

namespace {

template <int kWidth>
void queue_forward(const AttentionForward<Bf16>& a, const wgmma::ForwardMaps& maps) {
  const AttentionShape& s = a.shape;
  const wgmma::Walk walk = wgmma::walk_of(s.batch * s.heads, s.queries, s.causal);
  launch_tiles("attention",
               wgmma::blocks_of(walk),
               wgmma::kThreads,
               wgmma::ForwardPlan<kWidth>::kBytes,
               wgmma::forward_kernel<kWidth>,
               maps,
               a,
               walk);
}

}  // namespace

bool wgmma_attention(const AttentionForward<Bf16>& a) {
  const AttentionShape& s = a.shape;
  if (!wgmma::suits(s) || !heads_pack(s, a.q, a.k, a.v, a.o)) return false;
  wgmma::ForwardMaps maps;
  const auto describe = [&](Rows<const Bf16> rows, CUtensorMap& map) {
    return tile_copy::describe_heads(rows, s.head_width, s.queries, s.batch, map);
  };
  if (!describe(a.q, maps.q) || !describe(a.k, maps.k) || !describe(a.v, maps.v) ||
      !describe(a.o, maps.o)) {
    return false;
  }
  if (s.head_width <= 64) {
    queue_forward<64>(a, maps);
  } else {
    queue_forward<128>(a, maps);
  }
  return true;
}

}  // namespace norma::kernels
