#include "norma/kernels/direction.h"

#include <algorithm>
#include <cmath>

#include "norma/kernels/orthogonalize.h"

namespace norma::kernels {

template <class T>
void run(Ref, const MomentumDirection<T>& a) {
  const double scale = a.rule->grad_scale * factor_at(a.clip);
  for (Index i = 0; i < a.count; ++i) {
    const double g = scale * static_cast<double>(a.g[i]);
    const double m = a.beta * static_cast<double>(a.m[i]) + (1 - a.beta) * g;
    a.m[i] = static_cast<T>(m);
    a.u[i] = static_cast<T>(a.nesterov ? (1 - a.beta) * g + a.beta * m : m);
  }
}

template <class T>
void run(Ref, const AdamDirection<T>& a) {
  const AdamRule& rule = *a.rule;
  const double scale = rule.grad_scale * factor_at(a.clip);
  const auto t = static_cast<double>(rule.t);
  for (Index i = 0; i < a.count; ++i) {
    const double g = scale * static_cast<double>(a.g[i]);
    const double m = rule.beta1 * static_cast<double>(a.m[i]) + (1 - rule.beta1) * g;
    const double v = rule.beta2 * static_cast<double>(a.v[i]) + (1 - rule.beta2) * g * g;
    a.m[i] = static_cast<T>(m);
    a.v[i] = static_cast<T>(v);
    a.u[i] = static_cast<T>(m / (1 - std::pow(rule.beta1, t)) /
                            (std::sqrt(v / (1 - std::pow(rule.beta2, t))) + rule.eps));
  }
}

template <class T>
void run(Ref, const DirectionStep<T>& a) {
  for (Index i = 0; i < a.count; ++i) {
    const auto w = static_cast<double>(a.w[i]);
    const auto u = static_cast<double>(a.u[i]);
    const double decay = a.cautious && u * w < 0 ? 0 : a.rule->decay;
    a.w[i] = static_cast<T>(w - decay * w - a.rule->factor * u);
  }
}

template <class T>
void run(Ref, const Orthogonalize<T>& a) {
  orthogonalize(Ref{}, a);
}

template <class T>
void run(Ref, const PowerIteration<T>& a) {
  power_iteration(Ref{}, a);
}

#define NORMA_DIRECTIONS(Args)                \
  template void run(Ref, const Args<float>&); \
  template void run(Ref, const Args<double>&)
NORMA_DIRECTIONS(MomentumDirection);
NORMA_DIRECTIONS(AdamDirection);
NORMA_DIRECTIONS(DirectionStep);
NORMA_DIRECTIONS(Orthogonalize);
NORMA_DIRECTIONS(PowerIteration);
#undef NORMA_DIRECTIONS

}  // namespace norma::kernels
