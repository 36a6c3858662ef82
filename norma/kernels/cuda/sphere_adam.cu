#include "norma/kernels/cuda/keep.cuh"
#include "norma/kernels/cuda/vector_groups.cuh"

namespace norma::kernels {

namespace {

/// The corrections of the moments, worked out by one thread: powers in double are slow.
struct Corrections {
  double first;
  double second;
};
__device__ inline Corrections corrections(const SphereRule& rule) {
  __shared__ Corrections shared;
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    const auto t = static_cast<double>(rule.t);
    shared.first = 1 - pow(rule.beta1, t);
    shared.second = 1 - pow(rule.beta2, t);
  }
  __syncthreads();
  return shared;
}

/// The steps are those of the page for the CPU. Every thread of a vector has its numbers; one that
/// rests takes part in sums, which have barriers, and writes nothing.
template <class Group>
__global__ void sphere_kernel(const __grid_constant__ Together<SphereAdam<float>> all) {
  const SphereAdam<float> a = all.each[blockIdx.z];
  const Group group(a.layout);
  const SphereRule rule = *a.rule;
  const Corrections correct = corrections(rule);
  float* w = a.w;
  float* m = a.m;
  const float* g = a.g;
  const double v_before = group.exists() ? a.v[group.vector()] : 0;
  const bool rests = a.lazy && group.sum([&](Index i) { return g[i] == 0 ? 0.0f : 1.0f; }) == 0;
  const auto each = [&](auto&& f) {
    if (!rests) group.each(f);
  };

  const float unit = keeping_factor(group.sum([&](Index i) { return w[i] * w[i]; }), false);
  each([&](Index i) { w[i] *= unit; });

  // r = g − w⟨w, g⟩, and the moments.
  const auto scale = static_cast<float>(rule.grad_scale * factor_at(a.clip));
  const auto beta1 = static_cast<float>(rule.beta1);
  const auto fresh1 = static_cast<float>(1 - rule.beta1);
  const auto radial = static_cast<float>(group.sum([&](Index i) { return w[i] * (scale * g[i]); }));
  const double residue = group.sum([&](Index i) {
    const float r = scale * g[i] - w[i] * radial;
    return r * r;
  });
  each([&](Index i) { m[i] = beta1 * m[i] + fresh1 * (scale * g[i] - w[i] * radial); });
  const auto v = static_cast<float>(rule.beta2 * v_before + (1 - rule.beta2) * residue);
  if (group.leads() && !rests) a.v[group.vector()] = v;

  // w' = keep·w − move·m, with the angle that it turns by; `delta` turns m into δ.
  const double delta =
      1 / correct.first / (sqrt(static_cast<double>(v) / correct.second) + rule.eps);
  const double length = sqrt(group.sum([&](Index i) { return m[i] * m[i]; }));
  const double step = rule.lr * delta;
  const double angle = a.geodesic ? step * length : atan(step * length);
  const auto turned = static_cast<float>(cos(angle));
  const auto raised = static_cast<float>(sin(angle) * length);
  const float keep = a.geodesic ? turned : 1.0f;
  const auto move =
      static_cast<float>(!a.geodesic ? step : (length == 0 ? 0 : sin(angle) / length));
  each([&](Index i) {
    const float before = m[i];
    // Along e = −m/|m|, m turns with the geodesic: m' = cos φ·m + sin φ·|m|·w.
    if (a.parallel) m[i] = turned * before + raised * w[i];
    w[i] = keep * w[i] - move * before;
  });
  const float again = keeping_factor(group.sum([&](Index i) { return w[i] * w[i]; }), false);
  each([&](Index i) {
    w[i] *= again;
    if (a.copy != nullptr) write(a.copy[i], w[i]);
  });

  // Projection transport; after parallel transport it only takes rounding errors away.
  const auto rest = static_cast<float>(group.sum([&](Index i) { return w[i] * m[i]; }));
  each([&](Index i) { m[i] -= w[i] * rest; });
}

}  // namespace

template <class T>
void run(Cuda, const Together<SphereAdam<T>>& all) {
  const VectorLayout layout = all.each[0].layout;
  with_group(layout, [&](auto kind) {
    using Group = typename decltype(kind)::Type;
    dim3 grid = Group::grid(layout);
    grid.z = static_cast<unsigned>(all.count);
    launch("a step on spheres", grid, Group::block(), 0, sphere_kernel<Group>, all);
  });
}
template void run(Cuda, const Together<SphereAdam<float>>&);

}  // namespace norma::kernels
