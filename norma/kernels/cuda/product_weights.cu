// Gradients of weights by our own product: what is launched for them.
#include <algorithm>
#include <cstdint>

#include "norma/device/device.h"
#include "norma/kernels/cuda/product_weights.h"
#include "norma/kernels/cuda/product_weights_tiles.cuh"

namespace norma::kernels {

namespace {

/// A cluster has two parts at most.
int clusters() {
  constexpr std::size_t kMost =
      device::kProductWorkspaceBytes / (2 * products::weights::kBytesOfPart);
  return std::min(device::multiprocessors() / 2, static_cast<int>(kMost));
}

}  // namespace

bool run_weight_product(const Gemm<Bf16, float>& g, void* workspace) {
  const bool kind = g.trans_a && !g.trans_b && g.alpha == 1 && (g.beta == 0 || g.beta == 1) &&
                    g.addend == nullptr && g.epilogue == Epilogue::none;
  const bool pairs =
      g.n % 2 == 0 && g.ldc % 2 == 0 && reinterpret_cast<std::uintptr_t>(g.c) % sizeof(float2) == 0;
  if (!kind || !pairs) return false;
  products::Plan plan(g.m, g.n, g.k);
  plan.add(plan.maps.a, {g.a, g.k, g.m, g.lda}).add(plan.maps.b, {g.b, g.k, g.n, g.ldb});
  if (!plan.good()) return false;
  const products::Deal deal = products::deal_of(plan.shape, clusters());
  const products::weights::Result c{g.c, g.ldc, plan.shape.rows, plan.shape.columns, g.beta != 0};
  launch_tiles("a weight's gradient",
               2 * deal.clusters,
               products::kThreads,
               products::weights::kBytes,
               products::weights::weights_kernel,
               plan.maps,
               deal,
               c,
               static_cast<float4*>(workspace));
  const auto blocks =
      static_cast<unsigned>(products::tiles_to_add(deal) * products::weights::kBlocksOfTile);
  device::launch("adding parts of a weight's gradient",
                 blocks,
                 products::kWarpgroup,
                 0,
                 products::weights::add_parts_kernel,
                 deal,
                 c,
                 static_cast<float4*>(workspace));
  return true;
}

}  // namespace norma::kernels
