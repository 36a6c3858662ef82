#include "norma/ops/draw.h"

#include "norma/kernels/draw.h"
#include "norma/ops/dispatch.h"

namespace norma {

void draw(const Tensor& to, const DrawRule& rule, RandomKey key) {
  dispatch("draw", to, [&](auto who, auto zero) {
    using T = decltype(zero);
    T* const values = elements<T>(to);
    if (rule.bound > 0) {
      kernels::run(who, kernels::UniformDraw<T>{values, to.count(), rule.bound, key});
    } else {
      kernels::run(who, kernels::NormalDraw<T>{values, to.count(), rule.deviation, rule.cut, key});
    }
  });
}

}  // namespace norma
