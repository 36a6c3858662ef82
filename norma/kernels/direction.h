// Optimizers that work out the direction of a whole matrix before they move it (Muon, Hyperball):
// the passes before and after.
#pragma once

#include <array>

#include "norma/base/types.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/optimizer_step.h"

namespace norma::kernels {

/// m = β·m + (1−β)·g;  u = nesterov ? (1−β)·g + β·m : m.
template <class T>
struct MomentumDirection {
  const T* g;
  T* m;
  T* u;
  Index count;
  const MoveRule* rule;
  double beta;
  bool nesterov;
  const double* clip = nullptr;
};
template <class T>
void run(Ref, const MomentumDirection<T>& a);
void run(Cpu, const MomentumDirection<float>& a);
template <class T>
void run(Cuda, const MomentumDirection<T>& a);

/// The moments of Adam and its ratio u = m̂ / (√v̂ + eps). Of the rule, lr, decay and coupled are
/// not used.
template <class T>
struct AdamDirection {
  const T* g;
  T* m;
  T* v;
  T* u;
  Index count;
  const AdamRule* rule;
  const double* clip = nullptr;
};
template <class T>
void run(Ref, const AdamDirection<T>& a);
void run(Cpu, const AdamDirection<float>& a);
template <class T>
void run(Cuda, const AdamDirection<T>& a);

/// w −= decay·w + factor·u; with caution w decays only where u·w ≥ 0.
template <class T>
struct DirectionStep {
  T* w;
  const T* u;
  Index count;
  const MoveRule* rule;
  bool cautious;
  Bf16* copy = nullptr;
};
template <class T>
void run(Ref, const DirectionStep<T>& a);
void run(Cpu, const DirectionStep<float>& a);
template <class T>
void run(Cuda, const DirectionStep<T>& a);

/// One iteration of Newton–Schulz: X ← a·X + (b·A + c·A²)·X with A = X·Xᵀ.
struct Quintic {
  double a;
  double b;
  double c;
};

/// x (rows, cols) → nearly orthogonal, in place: x /= safety·|x|_F + floor, then one iteration for
/// every quintic. For rows > cols the same is done from the right, as if x were transposed. On a
/// GPU `coarse` multiplies in bf16, on the tensor cores.
template <class T>
struct Orthogonalize {
  static constexpr std::size_t kMostSteps = 16;
  T* x;
  Index rows;
  Index cols;
  std::array<Quintic, kMostSteps> quintics;
  Index steps;
  double safety;
  double floor;
  T* scratch;        // (orthogonalize_scratch(rows, cols))
  double* partials;  // (norm_pieces(rows·cols))
  double* factor;    // scratch
  bool coarse = false;
};
constexpr Index orthogonalize_scratch(Index rows, Index cols) {
  const Index side = rows < cols ? rows : cols;
  return 2 * side * side + rows * cols + 16;  // 16: where pieces start may be rounded up
}
template <class T>
void run(Ref, const Orthogonalize<T>& a);
void run(Cpu, const Orthogonalize<float>& a);
template <class T>
void run(Cuda, const Orthogonalize<T>& a);

/// One round of power iteration for the largest singular value: u = W·v/|·|, v = Wᵀ·u/|·|, and
/// sigma = |Wᵀ·u|. v (cols) is kept between calls.
template <class T>
struct PowerIteration {
  const T* w;
  Index rows;
  Index cols;
  T* v;
  T* u;  // (rows), scratch
  double* sigma;
};
template <class T>
void run(Ref, const PowerIteration<T>& a);
void run(Cpu, const PowerIteration<float>& a);
template <class T>
void run(Cuda, const PowerIteration<T>& a);

}  // namespace norma::kernels
