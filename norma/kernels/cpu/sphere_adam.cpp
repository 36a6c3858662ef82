#include <algorithm>
#include <cmath>

#include "norma/kernels/cpu/vector_blocks.h"
#include "norma/kernels/vectors.h"

namespace norma::kernels {

namespace {

/// One block of vectors. Factors of vector k lie in arrays; every pass is a sum or an each.
template <class Block>
void step_block(const SphereAdam<float>& a, const Block& block) {
  using Sums = double[Block::kMost];
  using Factors = float[Block::kMost];
  const SphereRule& rule = *a.rule;
  const Index count = block.count();
  float* w = a.w;
  float* m = a.m;
  const float* g = a.g;
  Sums sums;
  Factors factor;

  if (a.lazy) {
    block.sum(sums, [=](Index i, Index) { return g[i] == 0 ? 0.0f : 1.0f; });
    if (std::all_of(sums, sums + count, [](double moved) { return moved == 0; })) return;
  }
  block.sum(sums, [=](Index i, Index) { return w[i] * w[i]; });
  for (Index k = 0; k < count; ++k) factor[k] = keeping_factor(sums[k], false);
  block.each([&](Index i, Index k) { w[i] *= factor[k]; });

  // r = g − w⟨w, g⟩, and the moments.
  const auto scale = static_cast<float>(rule.grad_scale * factor_at(a.clip));
  const auto beta1 = static_cast<float>(rule.beta1);
  const auto fresh1 = static_cast<float>(1 - rule.beta1);
  Factors radial;
  block.sum(sums, [=](Index i, Index) { return w[i] * (scale * g[i]); });
  for (Index k = 0; k < count; ++k) radial[k] = static_cast<float>(sums[k]);
  block.sum(sums, [&](Index i, Index k) {
    const float r = scale * g[i] - w[i] * radial[k];
    return r * r;
  });
  block.each(
      [&](Index i, Index k) { m[i] = beta1 * m[i] + fresh1 * (scale * g[i] - w[i] * radial[k]); });

  // delta[k] turns m into δ.
  const auto t = static_cast<double>(rule.t);
  const double correct1 = 1 - std::pow(rule.beta1, t);
  const double correct2 = 1 - std::pow(rule.beta2, t);
  Sums delta;
  for (Index k = 0; k < count; ++k) {
    float& v = a.v[block.vector(k)];
    v = static_cast<float>(rule.beta2 * static_cast<double>(v) + (1 - rule.beta2) * sums[k]);
    delta[k] = 1 / correct1 / (std::sqrt(static_cast<double>(v) / correct2) + rule.eps);
  }

  // w' = keep·w − move·m, with the angle that it turns by.
  Sums squares;
  Factors keep;
  Factors move;
  Factors turned;  // cos φ
  Factors raised;  // sin φ·|m|
  block.sum(squares, [=](Index i, Index) { return m[i] * m[i]; });
  for (Index k = 0; k < count; ++k) {
    const double length = std::sqrt(squares[k]);
    const double step = rule.lr * delta[k];
    const double angle = a.geodesic ? step * length : std::atan(step * length);
    turned[k] = static_cast<float>(std::cos(angle));
    raised[k] = static_cast<float>(std::sin(angle) * length);
    keep[k] = a.geodesic ? turned[k] : 1.0f;
    move[k] = static_cast<float>(!a.geodesic ? step : (length == 0 ? 0 : std::sin(angle) / length));
  }
  if (a.parallel) {
    // Along e = −m/|m|, m turns with the geodesic: m' = cos φ·m + sin φ·|m|·w. The turned m is
    // worked out before w moves.
    block.each([&](Index i, Index k) {
      const float before = m[i];
      m[i] = turned[k] * before + raised[k] * w[i];
      w[i] = keep[k] * w[i] - move[k] * before;
    });
  } else {
    block.each([&](Index i, Index k) { w[i] = keep[k] * w[i] - move[k] * m[i]; });
  }
  block.sum(sums, [=](Index i, Index) { return w[i] * w[i]; });
  for (Index k = 0; k < count; ++k) factor[k] = keeping_factor(sums[k], false);
  block.each([&](Index i, Index k) { w[i] *= factor[k]; });

  // Projection transport; after parallel transport it only takes rounding errors away.
  block.sum(sums, [=](Index i, Index) { return w[i] * m[i]; });
  for (Index k = 0; k < count; ++k) radial[k] = static_cast<float>(sums[k]);
  block.each([&](Index i, Index k) { m[i] -= w[i] * radial[k]; });
}

}  // namespace

void run(Cpu, const SphereAdam<float>& a) {
  for_each_block(a.layout, [&](const auto& block) { step_block(a, block); });
}

}  // namespace norma::kernels
