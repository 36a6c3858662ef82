// Optimizer steps that treat every element alike. A rule holds the numbers of one step; the page of
// formulas is docs/optimizers.md. In all rules the gradient is first multiplied by `grad_scale`,
// and `decay` is what is decoupled: w loses decay·w (the learning rate is already in it), while
// `coupled` is added to the gradient as coupled·w.
//
// Rules lie in memory that the kernel can reach: on a GPU a step is recorded once and replayed with
// other numbers. So does `clip`, a second factor of the gradient (null: 1). Where `copy` is not
// null, kernels on the GPU also write the new weights there in bf16.
#pragma once

#include "norma/base/bf16.h"
#include "norma/base/types.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/host_device.h"
#include "norma/kernels/together.h"

namespace norma::kernels {

/// What must hold of the vectors of a matrix after the step.
enum class Keep : std::uint8_t { nothing, unit_rows, unit_columns, short_rows, short_columns };
constexpr bool keeps_rows(Keep keep) { return keep == Keep::unit_rows || keep == Keep::short_rows; }
constexpr bool keeps_columns(Keep keep) {
  return keep == Keep::unit_columns || keep == Keep::short_columns;
}
/// Vectors shorter than 1 stay as they are.
constexpr bool keeps_short(Keep keep) {
  return keep == Keep::short_rows || keep == Keep::short_columns;
}

/// b = first ? g : momentum·b + (1−damping)·g;  s = nesterov ? g + momentum·b : b;  w −= lr·s
/// With caution only where s·g > 0, and times caution_factor. One state b, none without momentum.
struct SgdRule {
  double grad_scale;
  double lr;
  double decay;
  double coupled;
  double momentum;
  double damping;
  bool nesterov;
  bool first;
  bool caution;
  double caution_factor;
};

/// m = β1·m + (1−β1)·g;  v = β2·v + (1−β2)·g²
/// w −= (lr / (1−β1^t)) · m / (√v / √(1−β2^t) + eps).  States m, v.
struct AdamRule {
  double grad_scale;
  double lr;
  double decay;
  double coupled;
  double beta1;
  double beta2;
  double eps;
  Index t;  // from 1
};

/// As Adam, the step times γ = D^power / (D^power + gate^power), D = √v̂ + eps.
struct GatedAdamRule {
  AdamRule adam;
  double power;
  double gate;
};

/// w −= lr·sign(β1·m + (1−β1)·g);  m = β2·m + (1−β2)·g;  sign(0) = 0.  State m.
struct LionRule {
  double grad_scale;
  double lr;
  double decay;
  double beta1;
  double beta2;
};

/// v += g²;  w −= lr·g / (√v + eps).  State v.
struct AdagradRule {
  double grad_scale;
  double lr;
  double coupled;
  double eps;
};

/// v = β2·v + (1−β2)·g²;  b = momentum·b + g / (√v + eps);  w −= lr·b.
/// States v, b; without momentum v alone.
struct RmspropRule {
  double grad_scale;
  double lr;
  double coupled;
  double beta2;
  double momentum;
  double eps;
};

/// b = momentum·b + (1−momentum)·g;  w −= lr·sign(b);  sign(0) = 0.
/// State b, none without momentum.
struct SignRule {
  double grad_scale;
  double lr;
  double decay;
  double momentum;
};

/// A whole matrix along a direction u: w −= decay·w + factor·u.
struct MoveRule {
  double grad_scale;
  double lr;
  double factor;
  double decay;
};

/// The factor in memory; 1 where there is none.
NORMA_BOTH inline double factor_at(const double* factor) { return factor == nullptr ? 1 : *factor; }

/// One step of a span. Where vectors are kept, and for lazy rows, the span is one matrix; else it
/// is one row of all elements.
template <class T, class Rule>
struct ElementStep {
  T* w;
  const T* g;
  T* first;  // the states in the order the rule names them; null: none
  T* second;
  Index rows;
  Index cols;
  const Rule* rule;
  Keep keep;
  bool lazy_rows;  // a row without gradient rests, and so do its states and its decay
  T* partials;     // (RowChunks(rows).count, cols) where columns are kept
  const double* clip = nullptr;
  Bf16* copy = nullptr;
};
/// Ref computes in double and rounds what it stores.
template <class T, class Rule>
void run(Ref, const ElementStep<T, Rule>& a);
/// One pass, which also normalizes rows; kept columns cost a second one. The same bits for any
/// thread count.
template <class Rule>
void run(Cpu, const ElementStep<float, Rule>& a);
/// In f32; rows are normalized in the same pass, kept columns cost a second one. Each step has the
/// bits that it has alone.
template <class T, class Rule>
void run(Cuda, const Together<ElementStep<T, Rule>>& all);

/// partials[p] = number of elements of piece p (of kNormPiece) whose coming step agrees in sign
/// with the gradient: s·g > 0. Changes nothing.
template <class T>
struct SgdAgreement {
  const T* w;
  const T* g;
  const T* b;  // null without momentum
  Index count;
  const SgdRule* rule;
  double* partials;
  const double* clip = nullptr;
};
template <class T>
void run(Ref, const SgdAgreement<T>& a);
void run(Cpu, const SgdAgreement<float>& a);
template <class T>
void run(Cuda, const SgdAgreement<T>& a);

}  // namespace norma::kernels
