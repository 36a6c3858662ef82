// Whether an optimizer may step, found out where the numbers lie: the host need not look first. On
// the CPU it looks.
#pragma once

#include <cstdint>

#include "norma/base/types.h"
#include "norma/kernels/exec.h"

namespace norma::kernels {

struct StepGuard {
  const float* losses;
  Index count;
  const double* norm;     // of the gradient
  std::int32_t* stopped;  // becomes 1 where one of them is not finite; else it stays
};
void run(Cuda, const StepGuard& a);

}  // namespace norma::kernels
