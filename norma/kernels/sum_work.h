// What follows from the norm of a span: a clipping factor, the scale that brings a matrix back to
// its radius, a trust ratio. Each is a few operations on single numbers, defined once; they run
// where the numbers lie, so that on a GPU nobody waits for them.
#pragma once

#include <cmath>
#include <type_traits>

#include "norma/base/types.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/host_device.h"
#include "norma/kernels/optimizer.h"
#include "norma/kernels/optimizer_step.h"

namespace norma::kernels {

/// work(Σ partials). The sum runs in an order that depends on the count alone.
template <class Work>
struct SumThen {
  const double* partials;
  Index count;
  Work work;
};
template <class Who, class Work>
requires(!std::is_same_v<Who, Cuda>) void run(Who, const SumThen<Work>& a) {
  double sum = 0;
  for (Index i = 0; i < a.count; ++i) sum += a.partials[i];
  a.work(sum);
}
template <class Work>
void run(Cuda, const SumThen<Work>& a);

/// work(|x|²); partials as in SquaredNorm.
template <class Who, class T, class Work>
void squares_then(Who who, const T* x, Index count, double* partials, const Work& work) {
  run(who, SquaredNorm<T>{x, count, partials});
  run(who, SumThen<Work>{partials, norm_pieces(count), work});
}

/// What clipping found, and the factor that a step takes its gradients by.
struct ClipState {
  double norm;        // of all gradients before clipping
  double grad_scale;  // for the step
  double clipped;     // how many were clipped
  double factor;      // of the tensor that is clipped just now
};

/// min(1, bound / (norm + 1e-6)); 1 when the bound is 0 (no clipping) or the norm is not a number.
NORMA_BOTH inline double clipping_factor(double norm, double bound) {
  if (bound == 0) return 1;
  const double factor = bound / (norm + 1e-6);
  return factor < 1 ? factor : 1;
}

struct StoreNorm {
  double* norm;
  NORMA_BOTH void operator()(double squares) const { *norm = std::sqrt(squares); }
};

/// Begins a clipping: the norm of all, and the factor for all of them.
struct GlobalClip {
  double bound;
  ClipState* state;
  NORMA_BOTH void operator()(double squares) const {
    state->norm = std::sqrt(squares);
    state->grad_scale = clipping_factor(state->norm, bound);
    state->clipped = state->grad_scale < 1 ? 1 : 0;
  }
};

/// Goes on with one tensor.
struct TensorClip {
  double bound;
  ClipState* state;
  NORMA_BOTH void operator()(double squares) const {
    state->factor = clipping_factor(std::sqrt(squares), bound);
    state->clipped += state->factor < 1 ? 1 : 0;
  }
};

/// The share of elements that agree (their number is the sum) becomes the factor of a cautious
/// step: 1 / max(share, 1e-3).
struct CautionFactor {
  Index count;
  SgdRule* rule;
  NORMA_BOTH void operator()(double agreeing) const {
    const double share = agreeing / static_cast<double>(count);
    rule->caution_factor = 1 / (share < 1e-3 ? 1e-3 : share);
  }
};

/// The gradient of a matrix times trust·|w| / (|g| + decay·|w| + eps), its coupled decay too; by 1
/// where a norm is 0. The sum is |g|².
struct TrustRatio {
  const double* weight_norm;
  const double* clip;
  double trust;
  double eps;
  SgdRule* rule;
  NORMA_BOTH void operator()(double squares) const {
    const double gradient = rule->grad_scale * factor_at(clip) * std::sqrt(squares);
    if (!(*weight_norm > 0 && gradient > 0)) return;
    const double ratio = trust * *weight_norm / (gradient + rule->coupled * *weight_norm + eps);
    rule->grad_scale *= ratio;
    rule->coupled *= ratio;
  }
};

/// Before Newton–Schulz: 1 / (safety·|x| + floor).
struct InverseNorm {
  double safety;
  double floor;
  double* factor;
  NORMA_BOTH void operator()(double squares) const {
    *factor = 1 / (safety * std::sqrt(squares) + floor);
  }
};

/// What brings a span back to a norm it had; 1 where nothing is left of it.
struct RestoreNorm {
  const double* norm;
  double* factor;
  NORMA_BOTH void operator()(double squares) const {
    const double now = std::sqrt(squares);
    *factor = now > 0 ? *norm / now : 1;
  }
};

/// A radius is kept as a state, in the type of states. `squared` says that the sum is the norm's
/// square, not the norm itself.
template <class T>
struct StoreRadius {
  T* radius;
  bool squared;
  NORMA_BOTH void operator()(double sum) const {
    *radius = static_cast<T>(squared ? std::sqrt(sum) : sum);
  }
};

/// What brings a matrix back to its radius; 1 where nothing is left of it, or where it did not
/// move.
template <class T>
struct RestoreRadius {
  const T* radius;
  bool squared;
  const MoveRule* moved;  // null: it did
  double* factor;
  NORMA_BOTH void operator()(double sum) const {
    const double now = squared ? std::sqrt(sum) : sum;
    const bool rests = moved != nullptr && moved->factor == 0;
    *factor = now > 0 && !rests ? static_cast<double>(*radius) / now : 1;
  }
};

/// The step of a Hyperball: factor = lr·R/|u|, 0 without a direction.
template <class T>
struct MoveByRadius {
  const T* radius;
  MoveRule* rule;
  NORMA_BOTH void operator()(double squares) const {
    const double length = std::sqrt(squares);
    rule->factor = length == 0 ? 0 : rule->lr * static_cast<double>(*radius) / length;
  }
};

/// x *= *factor; a factor of 1 changes nothing.
template <class T>
struct ScaleBy {
  T* x;
  Index count;
  const double* factor;
  Bf16* copy = nullptr;
};
template <class T>
void run(Ref, const ScaleBy<T>& a);
void run(Cpu, const ScaleBy<float>& a);
template <class T>
void run(Cuda, const ScaleBy<T>& a);

/// total += how many of the flags are set.
template <class T>
struct CountFlags {
  const T* flags;
  Index count;
  double* total;
};
template <class Who, class T>
requires(!std::is_same_v<Who, Cuda>) void run(Who, const CountFlags<T>& a) {
  for (Index i = 0; i < a.count; ++i) *a.total += a.flags[i] == T{1} ? 1 : 0;
}
template <class T>
void run(Cuda, const CountFlags<T>& a);

}  // namespace norma::kernels
