#include "norma/kernels/direction.h"

#include <algorithm>
#include <cmath>

#include "norma/kernels/orthogonalize.h"
#include "norma/kernels/parallel.h"

namespace norma::kernels {

namespace {

float f32(double x) { return static_cast<float>(x); }

/// f(begin, end) over pieces of a span.
template <class F>
void for_each_piece(Index count, F&& f) {
  for_each_row(norm_pieces(count), kNormPiece, [&](Index piece) {
    const Index begin = piece * kNormPiece;
    f(begin, std::min(count, begin + kNormPiece));
  });
}

}  // namespace

void run(Cpu, const MomentumDirection<float>& a) {
  const float beta = f32(a.beta);
  const float fresh = f32(1 - a.beta);
  const float scale = f32(a.rule->grad_scale * factor_at(a.clip));
  const float direct = a.nesterov ? fresh : 0.0f;
  const float through = a.nesterov ? beta : 1.0f;
  for_each_piece(a.count, [&](Index begin, Index end) {
    const float* __restrict gs = a.g;
    float* __restrict ms = a.m;
    float* __restrict u = a.u;
#pragma omp simd
    for (Index i = begin; i < end; ++i) {
      const float g = scale * gs[i];
      const float m = beta * ms[i] + fresh * g;
      ms[i] = m;
      u[i] = direct * g + through * m;
    }
  });
}

void run(Cpu, const AdamDirection<float>& a) {
  const AdamRule& rule = *a.rule;
  const auto t = static_cast<double>(rule.t);
  const float correct = f32(1 / (1 - std::pow(rule.beta1, t)));
  const float root = f32(1 / std::sqrt(1 - std::pow(rule.beta2, t)));
  const float scale = f32(rule.grad_scale * factor_at(a.clip));
  const float beta1 = f32(rule.beta1);
  const float beta2 = f32(rule.beta2);
  const float fresh1 = f32(1 - rule.beta1);
  const float fresh2 = f32(1 - rule.beta2);
  const float eps = f32(rule.eps);
  for_each_piece(a.count, [&](Index begin, Index end) {
    const float* __restrict gs = a.g;
    float* __restrict ms = a.m;
    float* __restrict vs = a.v;
    float* __restrict u = a.u;
#pragma omp simd
    for (Index i = begin; i < end; ++i) {
      const float g = scale * gs[i];
      const float m = beta1 * ms[i] + fresh1 * g;
      const float v = beta2 * vs[i] + fresh2 * g * g;
      ms[i] = m;
      vs[i] = v;
      u[i] = correct * m / (std::sqrt(v) * root + eps);
    }
  });
}

void run(Cpu, const DirectionStep<float>& a) {
  const float keep = f32(1 - a.rule->decay);
  const float against = a.cautious ? 1.0f : keep;  // where the step and the weight disagree
  const float factor = f32(a.rule->factor);
  for_each_piece(a.count, [&](Index begin, Index end) {
    float* __restrict w = a.w;
    const float* __restrict u = a.u;
#pragma omp simd
    for (Index i = begin; i < end; ++i) {
      w[i] = (u[i] * w[i] < 0 ? against : keep) * w[i] - factor * u[i];
    }
  });
}

void run(Cpu, const Orthogonalize<float>& a) { orthogonalize(Cpu{}, a); }
void run(Cpu, const PowerIteration<float>& a) { power_iteration(Cpu{}, a); }

}  // namespace norma::kernels
