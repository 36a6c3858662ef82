// Passes over the vectors of a contiguous matrix (rows, cols): its rows, or its columns. This is
// where weights that live on spheres are kept there. Sums run in an order that depends on the size
// alone.
#pragma once

#include "norma/kernels/exec.h"
#include "norma/kernels/optimizer_step.h"

namespace norma::kernels {

/// w_k /= |w_k| for every vector, or for those longer than 1. A vector of zeros stays.
template <class T>
struct KeepVectors {
  T* w;
  Index rows;
  Index cols;
  Keep keep;
  T* partials;  // (RowChunks(rows).count, cols) where columns are kept
  Bf16* copy = nullptr;
};
template <class T>
void run(Ref, const KeepVectors<T>& a);
void run(Cpu, const KeepVectors<float>& a);
template <class T>
void run(Cuda, const KeepVectors<T>& a);

/// Which vectors of a matrix, and where.
struct VectorLayout {
  Index rows;
  Index cols;
  bool columns;
  constexpr Index vectors() const { return columns ? cols : rows; }
  constexpr Index length() const { return columns ? rows : cols; }
};

/// g_k −= w_k·⟨w_k, g_k⟩ / ⟨w_k, w_k⟩: what of a gradient is tangent to the sphere.
template <class T>
struct TangentProject {
  const T* w;
  T* g;
  VectorLayout layout;
};
template <class T>
void run(Ref, const TangentProject<T>& a);
void run(Cpu, const TangentProject<float>& a);
template <class T>
void run(Cuda, const TangentProject<T>& a);

/// From unit vectors w and candidates w̃ (in `w`): t = w̃ − ⟨w, w̃⟩·w, φ = atan2(|t|, ⟨w, w̃⟩);
/// where φ > cap the new vector is cos(cap)·w + sin(cap)·t/|t|, else w̃/|w̃|.
template <class T>
struct AngularCap {
  const T* before;
  T* w;
  VectorLayout layout;
  double cap;
  Bf16* copy = nullptr;
};
template <class T>
void run(Ref, const AngularCap<T>& a);
void run(Cpu, const AngularCap<float>& a);
template <class T>
void run(Cuda, const AngularCap<T>& a);

/// Riemannian Adam on a product of spheres; every vector has one second moment:
///   w /= |w|;  r = g − w⟨w, g⟩;  m = β1·m + (1−β1)·r;  v = β2·v + (1−β2)·|r|²
///   δ = (m / (1−β1^t)) / (√(v / (1−β2^t)) + eps)
///   w' = (w − lr·δ)/|·|, or on the geodesic: cos φ·w − sin φ·δ/|δ|, φ = lr·|δ|
///   m' = m − w'⟨w', m⟩, or transported in parallel along the geodesic from w to w'
struct SphereRule {
  double grad_scale;
  double lr;
  double beta1;
  double beta2;
  double eps;
  Index t;  // from 1
};
template <class T>
struct SphereAdam {
  T* w;
  const T* g;
  T* m;
  T* v;  // (vectors)
  VectorLayout layout;
  const SphereRule* rule;
  bool geodesic;  // how w moves
  bool parallel;  // how m follows
  bool lazy;      // vectors without gradient rest
  const double* clip = nullptr;
  Bf16* copy = nullptr;
};
template <class T>
void run(Ref, const SphereAdam<T>& a);
void run(Cpu, const SphereAdam<float>& a);
template <class T>
void run(Cuda, const Together<SphereAdam<T>>& all);

/// ν_k = β2·ν_k + (1−β2)·mean(o_k²);  o_k /= √max(ν_k, 1e-10).
template <class T>
struct NormalizeDirection {
  T* o;
  T* nu;  // (vectors)
  VectorLayout layout;
  double beta2;
};
template <class T>
void run(Ref, const NormalizeDirection<T>& a);
void run(Cpu, const NormalizeDirection<float>& a);
template <class T>
void run(Cuda, const NormalizeDirection<T>& a);

/// Where |g_k| > clip·max(|w_k|, 1e-3), g_k shrinks to that length. clipped[k] is 1 there, else 0.
template <class T>
struct AdaptiveClip {
  const T* w;
  T* g;
  VectorLayout layout;
  double clip;
  T* clipped;
};
template <class T>
void run(Ref, const AdaptiveClip<T>& a);
void run(Cpu, const AdaptiveClip<float>& a);
template <class T>
void run(Cuda, const AdaptiveClip<T>& a);

/// Who measures: what is seldom asked for has plain loops alone on the CPU.
constexpr Ref measuring(Ref) { return {}; }
constexpr Ref measuring(Cpu) { return {}; }
constexpr Cuda measuring(Cuda) { return {}; }

/// angles[k] = 2·asin(|ŵ_k − ŵ'_k| / 2), in double whatever T is; 0 where a vector is zero.
/// For measurements: plain loops on the CPU.
template <class T>
struct VectorAngles {
  const T* before;
  const T* after;
  VectorLayout layout;
  double* angles;
};
template <class T>
void run(Ref, const VectorAngles<T>& a);
template <class T>
void run(Cuda, const VectorAngles<T>& a);

/// worst = the largest | |w_k| − 1 |, in double. For measurements: plain loops on the CPU.
template <class T>
struct UnitError {
  const T* w;
  VectorLayout layout;
  double* worst;
};
template <class T>
void run(Ref, const UnitError<T>& a);
template <class T>
void run(Cuda, const UnitError<T>& a);

}  // namespace norma::kernels
