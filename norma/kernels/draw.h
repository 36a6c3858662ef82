// Start values: random numbers for all elements of a tensor, each a function of the key and its
// place (base/rng.h). On a GPU a few differ from the CPU's in their last bit, where its logarithm
// or cosine rounds otherwise.
#pragma once

#include "norma/base/rng.h"
#include "norma/base/types.h"
#include "norma/kernels/exec.h"

namespace norma::kernels {

/// Uniform within ±bound.
template <class T>
struct UniformDraw {
  T* to;
  Index count;
  double bound;
  RandomKey key;
};
template <class T>
void run(Ref, const UniformDraw<T>& a);
void run(Cpu, const UniformDraw<float>& a);
template <class T>
void run(Cuda, const UniformDraw<T>& a);

/// Normal with this deviation; where cut > 0 none is further than cut deviations from 0.
template <class T>
struct NormalDraw {
  T* to;
  Index count;
  double deviation;
  double cut;
  RandomKey key;
};
template <class T>
void run(Ref, const NormalDraw<T>& a);
void run(Cpu, const NormalDraw<float>& a);
template <class T>
void run(Cuda, const NormalDraw<T>& a);

// One element or pair of them, for whoever walks over them. Templates, so that kernels for the GPU
// can call them too.
template <class T>
constexpr double drawn(const UniformDraw<T>& a, Index i) {
  const float uniform = uniform_of(random_word(a.key, static_cast<std::uint64_t>(i)));
  return a.bound * (2.0 * static_cast<double>(uniform) - 1);
}
/// A normal that is drawn again, from positions of its own, until it lies within the cut.
template <class Real>
constexpr Real cut_normal(Real value, RandomKey key, Index at, double cut) {
  for (std::uint64_t again = 1; cut > 0 && (value > cut || value < -cut); ++again) {
    value = normal_at<Real>({key.seed + again, key.stream}, static_cast<std::uint64_t>(at));
  }
  return value;
}
/// put(i, value) for the elements 2·pair and 2·pair + 1: normals come in pairs, and the logarithm
/// and the angle of a pair are what costs.
template <class T, class Put>
constexpr void draw_pair(const NormalDraw<T>& a, Index pair, Put&& put) {
  const auto both = normal_pair<double>(a.key, static_cast<std::uint64_t>(pair));
  for (Index i = 2 * pair; i < 2 * pair + 2 && i < a.count; ++i) {
    const double value = both[static_cast<std::size_t>(i - 2 * pair)];
    put(i, a.deviation * cut_normal(value, a.key, i, a.cut));
  }
}

}  // namespace norma::kernels
