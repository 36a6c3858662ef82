// One element of each rule of optimizer_step.h in f32, with everything that is the same for all
// elements worked out before. Called as f(w, g, a, b) with the states a and b; gives the new w.
// `clip` is the value of the second factor of the gradient.
#pragma once

#include <cmath>
#include <type_traits>

#include "norma/kernels/optimizer_step.h"
#if !defined(__CUDACC__)
#include "norma/kernels/vec_math.h"
#endif

namespace norma::kernels {

NORMA_BOTH inline float to_f32(double x) { return static_cast<float>(x); }
NORMA_BOTH inline float sign_of(float x) { return static_cast<float>((x > 0) - (x < 0)); }

template <bool kCaution>
struct SgdElement {
  NORMA_BOTH SgdElement(const SgdRule& rule, double clip)
      : scale(to_f32(rule.grad_scale * clip)),
        coupled(to_f32(rule.coupled)),
        keep(to_f32(1 - rule.decay)),
        lr(to_f32(rule.lr)),
        // b = old·b + fresh·g and s = direct·g + through·b cover the first step and Nesterov too.
        old(rule.first || rule.momentum == 0 ? 0.0f : to_f32(rule.momentum)),
        fresh(rule.first || rule.momentum == 0 ? 1.0f : to_f32(1 - rule.damping)),
        direct(rule.nesterov ? 1.0f : 0.0f),
        through(rule.nesterov ? to_f32(rule.momentum) : 1.0f),
        factor(to_f32(rule.caution_factor)) {}
  NORMA_BOTH float gradient(float w, float g) const { return scale * g + coupled * w; }
  NORMA_BOTH float direction(float g, float& b) const {
    b = old * b + fresh * g;
    return direct * g + through * b;
  }
  NORMA_BOTH float operator()(float w, float gradient_in, float& b, float&) const {
    const float g = gradient(w, gradient_in);
    float s = direction(g, b);
    if constexpr (kCaution) s = s * g > 0 ? s * factor : 0.0f;
    return keep * w - lr * s;
  }
  float scale, coupled, keep, lr, old, fresh, direct, through, factor;
};

struct AdamElement {
  NORMA_BOTH AdamElement(const AdamRule& rule, double clip)
      : scale(to_f32(rule.grad_scale * clip)),
        coupled(to_f32(rule.coupled)),
        keep(to_f32(1 - rule.decay)),
        step(to_f32(rule.lr / (1 - std::pow(rule.beta1, static_cast<double>(rule.t))))),
        root(to_f32(1 / std::sqrt(1 - std::pow(rule.beta2, static_cast<double>(rule.t))))),
        beta1(to_f32(rule.beta1)),
        beta2(to_f32(rule.beta2)),
        fresh1(to_f32(1 - rule.beta1)),
        fresh2(to_f32(1 - rule.beta2)),
        eps(to_f32(rule.eps)) {}
  NORMA_BOTH void moments(float w, float gradient_in, float& m, float& v) const {
    const float g = scale * gradient_in + coupled * w;
    m = beta1 * m + fresh1 * g;
    v = beta2 * v + fresh2 * g * g;
  }
  NORMA_BOTH float operator()(float w, float g, float& m, float& v) const {
    moments(w, g, m, v);
    return keep * w - step * m / (std::sqrt(v) * root + eps);
  }
  float scale, coupled, keep, step, root, beta1, beta2, fresh1, fresh2, eps;
};

struct GatedAdamElement {
  NORMA_BOTH GatedAdamElement(const GatedAdamRule& rule, double clip)
      : adam(rule.adam, clip), power(to_f32(rule.power)), log_gate(to_f32(std::log(rule.gate))) {}
  NORMA_BOTH float operator()(float w, float g, float& m, float& v) const {
    adam.moments(w, g, m, v);
    const float divisor = std::sqrt(v) * adam.root + adam.eps;
    // D^a / (D^a + gate^a), written as a sigmoid so that no power overflows.
    const float gate = 1.0f / (1.0f + expf(-power * (logf(divisor) - log_gate)));
    return adam.keep * w - adam.step * gate * m / divisor;
  }
  AdamElement adam;
  float power, log_gate;
};

struct LionElement {
  NORMA_BOTH LionElement(const LionRule& rule, double clip)
      : scale(to_f32(rule.grad_scale * clip)),
        keep(to_f32(1 - rule.decay)),
        lr(to_f32(rule.lr)),
        beta1(to_f32(rule.beta1)),
        beta2(to_f32(rule.beta2)),
        fresh1(to_f32(1 - rule.beta1)),
        fresh2(to_f32(1 - rule.beta2)) {}
  NORMA_BOTH float operator()(float w, float gradient_in, float& m, float&) const {
    const float g = scale * gradient_in;
    const float moved = keep * w - lr * sign_of(beta1 * m + fresh1 * g);
    m = beta2 * m + fresh2 * g;
    return moved;
  }
  float scale, keep, lr, beta1, beta2, fresh1, fresh2;
};

struct AdagradElement {
  NORMA_BOTH AdagradElement(const AdagradRule& rule, double clip)
      : scale(to_f32(rule.grad_scale * clip)),
        coupled(to_f32(rule.coupled)),
        lr(to_f32(rule.lr)),
        eps(to_f32(rule.eps)) {}
  NORMA_BOTH float operator()(float w, float gradient_in, float& v, float&) const {
    const float g = scale * gradient_in + coupled * w;
    v += g * g;
    return w - lr * g / (std::sqrt(v) + eps);
  }
  float scale, coupled, lr, eps;
};

struct RmspropElement {
  NORMA_BOTH RmspropElement(const RmspropRule& rule, double clip)
      : scale(to_f32(rule.grad_scale * clip)),
        coupled(to_f32(rule.coupled)),
        lr(to_f32(rule.lr)),
        beta2(to_f32(rule.beta2)),
        fresh2(to_f32(1 - rule.beta2)),
        momentum(to_f32(rule.momentum)),
        eps(to_f32(rule.eps)) {}
  NORMA_BOTH float operator()(float w, float gradient_in, float& v, float& b) const {
    const float g = scale * gradient_in + coupled * w;
    v = beta2 * v + fresh2 * g * g;
    b = momentum * b + g / (std::sqrt(v) + eps);
    return w - lr * b;
  }
  float scale, coupled, lr, beta2, fresh2, momentum, eps;
};

struct SignElement {
  NORMA_BOTH SignElement(const SignRule& rule, double clip)
      : scale(to_f32(rule.grad_scale * clip)),
        keep(to_f32(1 - rule.decay)),
        lr(to_f32(rule.lr)),
        momentum(to_f32(rule.momentum)),
        fresh(to_f32(1 - rule.momentum)) {}
  NORMA_BOTH float operator()(float w, float g, float& b, float&) const {
    b = momentum * b + fresh * (scale * g);
    return keep * w - lr * sign_of(b);
  }
  float scale, keep, lr, momentum, fresh;
};

/// The element of a rule. For SGD it depends on who steps.
template <class Rule>
struct ElementOf;
template <>
struct ElementOf<AdamRule> : std::type_identity<AdamElement> {};
template <>
struct ElementOf<GatedAdamRule> : std::type_identity<GatedAdamElement> {};
template <>
struct ElementOf<LionRule> : std::type_identity<LionElement> {};
template <>
struct ElementOf<AdagradRule> : std::type_identity<AdagradElement> {};
template <>
struct ElementOf<RmspropRule> : std::type_identity<RmspropElement> {};
template <>
struct ElementOf<SignRule> : std::type_identity<SignElement> {};

}  // namespace norma::kernels
