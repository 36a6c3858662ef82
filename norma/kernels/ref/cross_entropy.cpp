#include "norma/kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>

namespace norma::kernels {

template <class T>
void run(Ref, const CrossEntropy<T>& a) {
  const Index V = a.u.cols;
  const auto cap = static_cast<T>(a.softcap);
  const auto even = static_cast<T>(a.smoothing / static_cast<double>(V));
  const auto weight = static_cast<T>(a.weight);
  const auto z_loss = static_cast<T>(a.z_loss);
  if (a.dscale != nullptr) std::fill(a.dscale, a.dscale + V, T{0});
  T* z = a.scratch;
  for (Index r = 0; r < a.u.rows; ++r) {
    const Index label = a.soft ? 0 : a.targets[r];
    if (label < 0) {
      a.token_loss[r] = 0;
      std::fill(a.du.row(r), a.du.row(r) + V, T{0});
      continue;
    }
    for (Index j = 0; j < V; ++j) {
      const T z0 = a.scale == nullptr ? a.u(r, j) : a.scale[j] * a.u(r, j);
      z[j] = a.softcap > 0 ? cap * std::tanh(z0 / cap) : z0;
    }
    const auto target = [&](Index j) {
      const T hard = a.soft ? a.soft(r, j) : static_cast<T>(j == label ? 1 : 0);
      return static_cast<T>(1 - a.smoothing) * hard + even;
    };
    const T most = *std::max_element(z, z + V);
    T sum = 0;
    for (Index j = 0; j < V; ++j) sum += std::exp(z[j] - most);
    const T lse = most + std::log(sum);
    T loss = z_loss * lse * lse;
    T mass = 0;  // Σ t: 1 unless soft targets say otherwise
    for (Index j = 0; j < V; ++j) {
      loss += target(j) * (most - z[j]);
      mass += target(j);
    }
    // lse·Σt − Σ t·z, with the maximum taken out of both so that nothing large cancels.
    a.token_loss[r] = loss + mass * std::log(sum);
    for (Index j = 0; j < V; ++j) {
      const T p = std::exp(z[j] - lse);
      T dz = p * (mass + 2 * z_loss * lse) - target(j);
      if (a.softcap > 0) dz *= 1 - (z[j] / cap) * (z[j] / cap);
      dz *= weight;
      if (a.dscale != nullptr) a.dscale[j] += dz * a.u(r, j);
      a.du(r, j) = a.du_scale == nullptr ? dz : a.du_scale[j] * dz;
    }
  }
}

template <class T>
void run(Ref, const LogitScales<T>& a) {
  T mean = 0;
  for (Index j = 0; j < a.count; ++j) {
    a.scale[j] = static_cast<T>(a.mult) * a.stored[j];
    mean += a.scale[j] / static_cast<T>(a.count);
  }
  for (Index j = 0; j < a.count; ++j) {
    a.du_scale[j] =
        a.power == 0 ? a.scale[j] : std::pow(a.scale[j] / mean, static_cast<T>(a.power));
  }
}

template void run(Ref, const CrossEntropy<float>&);
template void run(Ref, const CrossEntropy<double>&);
template void run(Ref, const LogitScales<float>&);
template void run(Ref, const LogitScales<double>&);

}  // namespace norma::kernels
