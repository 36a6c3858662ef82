// The gradient of a weight on Hopper: C = or += Aᵀ·B of bf16 in f32, where the depth is the many
// rows of a batch and C has few tiles.
#pragma once

#include "norma/base/bf16.h"
#include "norma/kernels/gemm.h"

namespace norma::kernels {

/// `workspace` has device::kProductWorkspaceBytes. False, with nothing queued, where the GPU, the
/// product or its alignment is not of this kind.
bool run_weight_product(const Gemm<Bf16, float>& g, void* workspace);

}  // namespace norma::kernels
