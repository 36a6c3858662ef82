// What a rule of an optimizer does to an element, on the GPU.
#pragma once

#include <new>

#include "norma/kernels/element_rules.h"
#include "norma/kernels/optimizer_step.h"

namespace norma::kernels {

/// Whether it is cautious stands in the rule, which the host cannot see.
struct SgdAtRunTime : SgdElement<true> {
  __device__ SgdAtRunTime(const SgdRule& rule, double clip)
      : SgdElement<true>(rule, clip), caution(rule.caution) {}
  __device__ float operator()(float w, float gradient_in, float& b, float&) const {
    const float g = gradient(w, gradient_in);
    float s = direction(g, b);
    if (caution) s = s * g > 0 ? s * factor : 0.0f;
    return keep * w - lr * s;
  }
  bool caution;
};

template <>
struct ElementOf<SgdRule> : std::type_identity<SgdAtRunTime> {};

/// One thread works out what is the same for all elements; powers in double are slow.
template <class Rule>
__device__ typename ElementOf<Rule>::type element_of(const Rule* rule, const double* clip) {
  using Element = typename ElementOf<Rule>::type;
  alignas(16) __shared__ unsigned char memory[sizeof(Element)];
  if (threadIdx.x == 0 && threadIdx.y == 0) new (memory) Element(*rule, factor_at(clip));
  __syncthreads();
  return *reinterpret_cast<const Element*>(memory);
}

}  // namespace norma::kernels
