#include "norma/kernels/optimizer_step.h"

#include <algorithm>
#include <cmath>

#include "norma/kernels/cpu/vector_blocks.h"
#include "norma/kernels/flags.h"
#include "norma/kernels/optimizer.h"
#include "norma/kernels/vec_math.h"

namespace norma::kernels {

namespace {

float f32(double x) { return static_cast<float>(x); }
float sign(float x) { return static_cast<float>((x > 0) - (x < 0)); }

// One element of each rule, with everything that is the same for all elements worked out before.
// Called as f(w, g, a, b) with the states a and b; gives the new w.

template <bool kCaution>
struct SgdElement {
  explicit SgdElement(const SgdRule& rule)
      : scale(f32(rule.grad_scale)),
        coupled(f32(rule.coupled)),
        keep(f32(1 - rule.decay)),
        lr(f32(rule.lr)),
        // b = old·b + fresh·g and s = direct·g + through·b cover the first step and Nesterov too.
        old(rule.first || rule.momentum == 0 ? 0.0f : f32(rule.momentum)),
        fresh(rule.first || rule.momentum == 0 ? 1.0f : f32(1 - rule.damping)),
        direct(rule.nesterov ? 1.0f : 0.0f),
        through(rule.nesterov ? f32(rule.momentum) : 1.0f),
        factor(f32(rule.caution_factor)) {}
  float gradient(float w, float g) const { return scale * g + coupled * w; }
  float direction(float g, float& b) const {
    b = old * b + fresh * g;
    return direct * g + through * b;
  }
  float operator()(float w, float gradient_in, float& b, float&) const {
    const float g = gradient(w, gradient_in);
    float s = direction(g, b);
    if constexpr (kCaution) s = s * g > 0 ? s * factor : 0.0f;
    return keep * w - lr * s;
  }
  float scale, coupled, keep, lr, old, fresh, direct, through, factor;
};

struct AdamElement {
  explicit AdamElement(const AdamRule& rule)
      : scale(f32(rule.grad_scale)),
        coupled(f32(rule.coupled)),
        keep(f32(1 - rule.decay)),
        step(f32(rule.lr / (1 - std::pow(rule.beta1, static_cast<double>(rule.t))))),
        root(f32(1 / std::sqrt(1 - std::pow(rule.beta2, static_cast<double>(rule.t))))),
        beta1(f32(rule.beta1)),
        beta2(f32(rule.beta2)),
        fresh1(f32(1 - rule.beta1)),
        fresh2(f32(1 - rule.beta2)),
        eps(f32(rule.eps)) {}
  void moments(float w, float gradient_in, float& m, float& v) const {
    const float g = scale * gradient_in + coupled * w;
    m = beta1 * m + fresh1 * g;
    v = beta2 * v + fresh2 * g * g;
  }
  float operator()(float w, float g, float& m, float& v) const {
    moments(w, g, m, v);
    return keep * w - step * m / (std::sqrt(v) * root + eps);
  }
  float scale, coupled, keep, step, root, beta1, beta2, fresh1, fresh2, eps;
};

struct GatedAdamElement {
  explicit GatedAdamElement(const GatedAdamRule& rule)
      : adam(rule.adam), power(f32(rule.power)), log_gate(f32(std::log(rule.gate))) {}
  float operator()(float w, float g, float& m, float& v) const {
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
  explicit LionElement(const LionRule& rule)
      : scale(f32(rule.grad_scale)),
        keep(f32(1 - rule.decay)),
        lr(f32(rule.lr)),
        beta1(f32(rule.beta1)),
        beta2(f32(rule.beta2)),
        fresh1(f32(1 - rule.beta1)),
        fresh2(f32(1 - rule.beta2)) {}
  float operator()(float w, float gradient_in, float& m, float&) const {
    const float g = scale * gradient_in;
    const float moved = keep * w - lr * sign(beta1 * m + fresh1 * g);
    m = beta2 * m + fresh2 * g;
    return moved;
  }
  float scale, keep, lr, beta1, beta2, fresh1, fresh2;
};

struct AdagradElement {
  explicit AdagradElement(const AdagradRule& rule)
      : scale(f32(rule.grad_scale)),
        coupled(f32(rule.coupled)),
        lr(f32(rule.lr)),
        eps(f32(rule.eps)) {}
  float operator()(float w, float gradient_in, float& v, float&) const {
    const float g = scale * gradient_in + coupled * w;
    v += g * g;
    return w - lr * g / (std::sqrt(v) + eps);
  }
  float scale, coupled, lr, eps;
};

struct RmspropElement {
  explicit RmspropElement(const RmspropRule& rule)
      : scale(f32(rule.grad_scale)),
        coupled(f32(rule.coupled)),
        lr(f32(rule.lr)),
        beta2(f32(rule.beta2)),
        fresh2(f32(1 - rule.beta2)),
        momentum(f32(rule.momentum)),
        eps(f32(rule.eps)) {}
  float operator()(float w, float gradient_in, float& v, float& b) const {
    const float g = scale * gradient_in + coupled * w;
    v = beta2 * v + fresh2 * g * g;
    b = momentum * b + g / (std::sqrt(v) + eps);
    return w - lr * b;
  }
  float scale, coupled, lr, beta2, fresh2, momentum, eps;
};

struct SignElement {
  explicit SignElement(const SignRule& rule)
      : scale(f32(rule.grad_scale)),
        keep(f32(1 - rule.decay)),
        lr(f32(rule.lr)),
        momentum(f32(rule.momentum)),
        fresh(f32(1 - rule.momentum)) {}
  float operator()(float w, float g, float& b, float&) const {
    b = momentum * b + fresh * (scale * g);
    return keep * w - lr * sign(b);
  }
  float scale, keep, lr, momentum, fresh;
};

/// Calls f(element) with the element of a rule.
template <class F>
void with_element(const SgdRule& rule, F&& f) {
  if (rule.caution) {
    f(SgdElement<true>(rule));
  } else {
    f(SgdElement<false>(rule));
  }
}
template <class F>
void with_element(const AdamRule& rule, F&& f) {
  f(AdamElement(rule));
}
template <class F>
void with_element(const GatedAdamRule& rule, F&& f) {
  f(GatedAdamElement(rule));
}
template <class F>
void with_element(const LionRule& rule, F&& f) {
  f(LionElement(rule));
}
template <class F>
void with_element(const AdagradRule& rule, F&& f) {
  f(AdagradElement(rule));
}
template <class F>
void with_element(const RmspropRule& rule, F&& f) {
  f(RmspropElement(rule));
}
template <class F>
void with_element(const SignRule& rule, F&& f) {
  f(SignElement(rule));
}

/// n neighbouring elements from `begin` on.
template <class Step, class Element>
void step_run(const Step& a, const Element& element, Index begin, Index n) {
  float* __restrict w = a.w + begin;
  const float* __restrict g = a.g + begin;
  with_flags(a.first != nullptr, a.second != nullptr, [&](auto has_first, auto has_second) {
    float* __restrict first = has_first ? a.first + begin : nullptr;
    float* __restrict second = has_second ? a.second + begin : nullptr;
#pragma omp simd
    for (Index i = 0; i < n; ++i) {
      float state1 = 0;
      float state2 = 0;
      if constexpr (has_first) state1 = first[i];
      if constexpr (has_second) state2 = second[i];
      w[i] = element(w[i], g[i], state1, state2);
      if constexpr (has_first) first[i] = state1;
      if constexpr (has_second) second[i] = state2;
    }
  });
}

/// Whether row r has no gradient and may rest.
template <class Step>
bool rests(const Step& a, Index r) {
  const float* g = a.g + r * a.cols;
  return a.lazy_rows && std::all_of(g, g + a.cols, [](float x) { return x == 0; });
}

template <class Step, class Element>
void step_rows(const Step& a, const Element& element) {
  const VectorLayout layout{a.rows, a.cols, false};
  for_each_row(a.rows, a.cols, [&](Index r) {
    if (rests(a, r)) return;
    step_run(a, element, r * a.cols, a.cols);
    if (a.keep == Keep::nothing) return;
    float* w = a.w;
    const RowBlock row(layout, r);
    double squares = 0;
    row.sum(&squares, [w](Index i, Index) { return w[i] * w[i]; });
    const float factor = keeping_factor(squares, keeps_short(a.keep));
    row.each([w, factor](Index i, Index) { w[i] *= factor; });
  });
}

/// The step and, while the new weights are in the cache, their squares column by column.
template <class Step, class Element>
void step_columns(const Step& a, const Element& element) {
  for_each_chunk(RowChunks(a.rows), a.cols, [&](Index chunk, Index begin, Index end) {
    float* __restrict sums = a.partials + chunk * a.cols;
    std::fill(sums, sums + a.cols, 0.0f);
    for (Index r = begin; r < end; ++r) {
      if (!rests(a, r)) step_run(a, element, r * a.cols, a.cols);
      const float* __restrict w = a.w + r * a.cols;
#pragma omp simd
      for (Index c = 0; c < a.cols; ++c) sums[c] += w[c] * w[c];
    }
  });
  scale_columns(a.w, a.rows, a.cols, a.keep, a.partials);
}

}  // namespace

template <class Rule>
void run(Cpu, const ElementStep<float, Rule>& a) {
  with_element(a.rule, [&](const auto& element) {
    if (keeps_columns(a.keep)) {
      step_columns(a, element);
    } else if (keeps_rows(a.keep) || a.lazy_rows) {
      step_rows(a, element);
    } else {
      const Index count = a.rows * a.cols;
      for_each_row(norm_pieces(count), kNormPiece, [&](Index piece) {
        const Index begin = piece * kNormPiece;
        step_run(a, element, begin, std::min(count - begin, kNormPiece));
      });
    }
  });
}

void run(Cpu, const SgdAgreement<float>& a) {
  const SgdElement<true> element(a.rule);
  for_each_row(norm_pieces(a.count), kNormPiece, [&](Index piece) {
    const Index begin = piece * kNormPiece;
    const Index end = std::min(a.count, begin + kNormPiece);
    int agreeing = 0;
#pragma omp simd reduction(+ : agreeing)
    for (Index i = begin; i < end; ++i) {
      const float g = element.gradient(a.w[i], a.g[i]);
      float b = a.b == nullptr ? 0.0f : a.b[i];
      agreeing += element.direction(g, b) * g > 0 ? 1 : 0;
    }
    a.partials[piece] = agreeing;
  });
}

template void run(Cpu, const ElementStep<float, SgdRule>&);
template void run(Cpu, const ElementStep<float, AdamRule>&);
template void run(Cpu, const ElementStep<float, GatedAdamRule>&);
template void run(Cpu, const ElementStep<float, LionRule>&);
template void run(Cpu, const ElementStep<float, AdagradRule>&);
template void run(Cpu, const ElementStep<float, RmspropRule>&);
template void run(Cpu, const ElementStep<float, SignRule>&);

}  // namespace norma::kernels
