#include "norma/kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>

namespace norma::kernels {

void run(Ref, const LossTokens& a) {
  Index counted = 0;
  for (Index r = 0; r < a.rows; ++r) {
    if (a.targets == nullptr || a.targets[r] >= 0) ++counted;
  }
  *a.tokens = a.given > 0 ? a.given : static_cast<double>(counted);
}

template <class T>
void run(Ref, const CrossEntropyLoss<T>& a) {
  const Index classes = a.u.cols;
  const T cap = static_cast<T>(a.softcap);
  const T smoothing = static_cast<T>(a.smoothing);
  const T zeta = static_cast<T>(a.z_loss);
  T mean_scale = 0;
  for (Index v = 0; a.scale != nullptr && v < classes; ++v) {
    mean_scale += a.scale[v] / static_cast<T>(classes);
  }
  if (a.dscale != nullptr) std::fill(a.dscale, a.dscale + classes, T{0});

  for (Index r = 0; r < a.u.rows; ++r) {
    a.losses[r] = 0;
    if (a.right != nullptr) a.right[r] = 0;
    if (!a.soft && a.targets[r] < 0) {
      for (Index v = 0; a.du && v < classes; ++v) a.du(r, v) = 0;
      continue;
    }
    const auto factor = [&](Index v) {
      return a.scale == nullptr ? T{1} : static_cast<T>(a.scale_mult) * a.scale[v];
    };
    const auto z = [&](Index v) {
      const T z0 = factor(v) * a.u(r, v);
      return a.softcap > 0 ? cap * std::tanh(z0 / cap) : z0;
    };
    // dz/dz0 = 1 − tanh², which keeps no digits where tanh is nearly 1; 1/cosh² does.
    const auto slope = [&](Index v) {
      return a.softcap > 0 ? std::pow(std::cosh(factor(v) * a.u(r, v) / cap), T{-2}) : T{1};
    };
    const auto target = [&](Index v) {
      const T hard = !a.soft && v == a.targets[r] ? T{1} : T{0};
      return (1 - smoothing) * (a.soft ? a.soft(r, v) : hard) + smoothing / static_cast<T>(classes);
    };
    T top = z(0);
    for (Index v = 1; v < classes; ++v) top = std::max(top, z(v));
    T sum = 0;
    T mass = 0;   // Σ t, 1 for a distribution
    T cross = 0;  // Σ t·(z − top)
    for (Index v = 0; v < classes; ++v) {
      sum += std::exp(z(v) - top);
      mass += target(v);
      cross += target(v) * (z(v) - top);
    }
    const T lse = top + std::log(sum);
    a.losses[r] = static_cast<double>(mass * std::log(sum) - cross + zeta * lse * lse);
    if (a.right != nullptr) {
      Index first = 0;  // of the largest
      while (z(first) < top) ++first;
      a.right[r] = first == a.targets[r] ? 1 : 0;
    }
    if (!a.du) continue;
    for (Index v = 0; v < classes; ++v) {
      const T p = std::exp(z(v) - top) / sum;
      const T dz = ((mass + 2 * zeta * lse) * p - target(v)) / static_cast<T>(*a.tokens);
      const T dz0 = dz * slope(v);
      if (a.dscale != nullptr) a.dscale[v] += static_cast<T>(a.scale_mult) * dz0 * a.u(r, v);
      const T passed = a.precondition == 0
                           ? factor(v)
                           : std::pow(a.scale[v] / mean_scale, static_cast<T>(a.precondition));
      a.du(r, v) = passed * dz0;
    }
  }
}

template <class T>
void run(Ref, const LossSum<T>& a) {
  double sum = 0;
  for (Index r = 0; r < a.rows; ++r) {
    sum += a.losses[r];
    a.token_losses[r] = static_cast<T>(a.losses[r]);
  }
  *a.loss = static_cast<T>(sum / *a.tokens);
}

template void run(Ref, const CrossEntropyLoss<float>&);
template void run(Ref, const CrossEntropyLoss<double>&);
template void run(Ref, const LossSum<float>&);
template void run(Ref, const LossSum<double>&);

}  // namespace norma::kernels
