#include "norma/kernels/optimizer_step.h"

#include <algorithm>
#include <cmath>

#include "norma/kernels/optimizer.h"
#include "norma/kernels/vectors.h"

namespace norma::kernels {

namespace {

/// The new weight of one element; a and b are its states.
struct Element {
  double w;
  double g;
  double a;
  double b;
};

double sign(double x) { return static_cast<double>((x > 0) - (x < 0)); }

double sgd_direction(const SgdRule& rule, double g, double& b) {
  if (rule.momentum == 0) return g;
  b = rule.first ? g : rule.momentum * b + (1 - rule.damping) * g;
  return rule.nesterov ? g + rule.momentum * b : b;
}

double sgd_gradient(const SgdRule& rule, double w, double g) {
  return rule.grad_scale * g + rule.coupled * w;
}

void step(const SgdRule& rule, Element& e) {
  const double g = sgd_gradient(rule, e.w, e.g);
  double direction = sgd_direction(rule, g, e.a);
  if (rule.caution) direction = direction * g > 0 ? direction * rule.caution_factor : 0;
  e.w = e.w * (1 - rule.decay) - rule.lr * direction;
}

/// Updates both moments and gives D = √v̂ + eps and m̂.
struct Moments {
  double corrected;
  double divisor;
};
Moments adam_moments(const AdamRule& rule, Element& e) {
  const double g = rule.grad_scale * e.g + rule.coupled * e.w;
  e.a = rule.beta1 * e.a + (1 - rule.beta1) * g;
  e.b = rule.beta2 * e.b + (1 - rule.beta2) * g * g;
  const auto t = static_cast<double>(rule.t);
  return {e.a / (1 - std::pow(rule.beta1, t)),
          std::sqrt(e.b / (1 - std::pow(rule.beta2, t))) + rule.eps};
}

void step(const AdamRule& rule, Element& e) {
  const Moments moments = adam_moments(rule, e);
  e.w = e.w * (1 - rule.decay) - rule.lr * moments.corrected / moments.divisor;
}

void step(const GatedAdamRule& rule, Element& e) {
  const Moments moments = adam_moments(rule.adam, e);
  const double open = std::pow(moments.divisor, rule.power);
  const double gate = open / (open + std::pow(rule.gate, rule.power));
  e.w = e.w * (1 - rule.adam.decay) - rule.adam.lr * gate * moments.corrected / moments.divisor;
}

void step(const LionRule& rule, Element& e) {
  const double g = rule.grad_scale * e.g;
  e.w = e.w * (1 - rule.decay) - rule.lr * sign(rule.beta1 * e.a + (1 - rule.beta1) * g);
  e.a = rule.beta2 * e.a + (1 - rule.beta2) * g;
}

void step(const AdagradRule& rule, Element& e) {
  const double g = rule.grad_scale * e.g + rule.coupled * e.w;
  e.a += g * g;
  e.w -= rule.lr * g / (std::sqrt(e.a) + rule.eps);
}

void step(const RmspropRule& rule, Element& e) {
  const double g = rule.grad_scale * e.g + rule.coupled * e.w;
  e.a = rule.beta2 * e.a + (1 - rule.beta2) * g * g;
  const double ratio = g / (std::sqrt(e.a) + rule.eps);
  e.b = rule.momentum * e.b + ratio;
  e.w -= rule.lr * e.b;
}

void step(const SignRule& rule, Element& e) {
  e.a = rule.momentum * e.a + (1 - rule.momentum) * rule.grad_scale * e.g;
  e.w = e.w * (1 - rule.decay) - rule.lr * sign(e.a);
}

/// The rule with both factors of the gradient in one.
template <class Rule>
Rule clipped(Rule rule, const double* clip) {
  rule.grad_scale *= factor_at(clip);
  return rule;
}
GatedAdamRule clipped(GatedAdamRule rule, const double* clip) {
  rule.adam.grad_scale *= factor_at(clip);
  return rule;
}

}  // namespace

template <class T, class Rule>
void run(Ref, const ElementStep<T, Rule>& a) {
  const Rule rule = clipped(*a.rule, a.clip);
  for (Index r = 0; r < a.rows; ++r) {
    const Index begin = r * a.cols;
    const Index end = begin + a.cols;
    if (a.lazy_rows && std::all_of(a.g + begin, a.g + end, [](T g) { return g == 0; })) continue;
    for (Index i = begin; i < end; ++i) {
      Element e{static_cast<double>(a.w[i]),
                static_cast<double>(a.g[i]),
                a.first == nullptr ? 0 : static_cast<double>(a.first[i]),
                a.second == nullptr ? 0 : static_cast<double>(a.second[i])};
      step(rule, e);
      a.w[i] = static_cast<T>(e.w);
      if (a.first != nullptr) a.first[i] = static_cast<T>(e.a);
      if (a.second != nullptr) a.second[i] = static_cast<T>(e.b);
    }
    if (keeps_rows(a.keep)) run(Ref{}, KeepVectors<T>{a.w + begin, 1, a.cols, a.keep, nullptr});
  }
  if (keeps_columns(a.keep)) {
    run(Ref{}, KeepVectors<T>{a.w, a.rows, a.cols, a.keep, a.partials});
  }
}

template <class T>
void run(Ref, const SgdAgreement<T>& a) {
  const SgdRule rule = clipped(*a.rule, a.clip);
  for (Index piece = 0; piece < norm_pieces(a.count); ++piece) {
    double agreeing = 0;
    for (Index i = piece * kNormPiece; i < std::min(a.count, (piece + 1) * kNormPiece); ++i) {
      const double g = sgd_gradient(rule, static_cast<double>(a.w[i]), static_cast<double>(a.g[i]));
      double b = a.b == nullptr ? 0 : static_cast<double>(a.b[i]);
      agreeing += sgd_direction(rule, g, b) * g > 0 ? 1 : 0;
    }
    a.partials[piece] = agreeing;
  }
}

#define NORMA_STEP(Rule)                                   \
  template void run(Ref, const ElementStep<float, Rule>&); \
  template void run(Ref, const ElementStep<double, Rule>&)
NORMA_STEP(SgdRule);
NORMA_STEP(AdamRule);
NORMA_STEP(GatedAdamRule);
NORMA_STEP(LionRule);
NORMA_STEP(AdagradRule);
NORMA_STEP(RmspropRule);
NORMA_STEP(SignRule);
#undef NORMA_STEP
template void run(Ref, const SgdAgreement<float>&);
template void run(Ref, const SgdAgreement<double>&);

}  // namespace norma::kernels
