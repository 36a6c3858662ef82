#include "norma/ops/scale_norm.h"

#include <cmath>

#include "norma/ops/dispatch.h"
#include "norma/ops/l2_rows.h"

namespace norma {

Var scale_norm(Var x, Var g, ScaleNormSpec spec) {
  constexpr std::string_view kOp = "scale_norm";
  require_float(kOp, "x", x);
  const Index cols = x.shape().cols();
  return l2_rows(kOp,
                 x,
                 g,
                 {.group = cols,
                  .gains = 1,
                  .gain_scale = std::sqrt(static_cast<double>(cols)),
                  .eps = spec.eps});
}

}  // namespace norma
