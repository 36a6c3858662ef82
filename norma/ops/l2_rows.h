// What l2_norm and scale_norm share: rows or heads divided by their length, times a gain.
#pragma once

#include <string_view>

#include "norma/autograd/var.h"

namespace norma {

struct L2Rows {
  Index group;        // columns normalized together
  Index gains;        // length of the gain: 1, group or the width
  double gain_scale;  // the factor is gain_scale·gain; an absent gain counts as 1
  double eps;
};

/// Checks the inputs in the name of `op`, computes and records. `op` must outlive the step.
/// Defined in norma/ops/l2_norm.cpp.
Var l2_rows(std::string_view op, Var x, Var gain, L2Rows spec);

}  // namespace norma
