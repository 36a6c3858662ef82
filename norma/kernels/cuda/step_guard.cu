#include "norma/kernels/cuda/pack.cuh"
#include "norma/kernels/step_guard.h"

namespace norma::kernels {

namespace {

__global__ void guard_kernel(StepGuard a) {
  bool good = isfinite(*a.norm);
  for (Index i = 0; i < a.count; ++i) good = good && isfinite(a.losses[i]);
  if (!good) *a.stopped = 1;
}

}  // namespace

void run(Cuda, const StepGuard& a) { launch("guarding a step", 1, 1, 0, guard_kernel, a); }

}  // namespace norma::kernels
