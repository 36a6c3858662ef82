#include "norma/ops/head_loss.h"

#include <algorithm>

#include "norma/ops/dispatch.h"
#include "norma/ops/linear_products.h"
#include "norma/ops/loss_rows.h"
#include "norma/ops/row_parts.h"
#include "norma/tensor/plain.h"
#include "norma/tensor/planning.h"

namespace norma {

namespace {

constexpr std::string_view kOp = "head_loss";

// Enough rows to keep a GPU busy with products, and a small part of what a step takes: a quarter of
// the logits, but no less than the first and no more than the second.
constexpr Index kFewestBytes = Index{1} << 27;
constexpr Index kMostBytes = Index{1} << 31;

Index rows_at_a_time(const HeadLossSpec& spec, const Shape& logits, DType dtype) {
  if (spec.rows > 0) return std::min(spec.rows, logits.rows());
  const Index row_bytes = logits.cols() * static_cast<Index>(size_of(dtype));
  const Index bytes = std::clamp(logits.rows() * row_bytes / 4, kFewestBytes, kMostBytes);
  return rows_of_part(logits.rows(), bytes / row_bytes);
}

/// What forward computes for backward; absent where it is not wanted.
struct Gradients {
  Tensor x;
  Tensor weight;
  Tensor scale;
};

/// The products of some rows: logits = x·Wᵀ, then dx = dlogits·W and dW += dlogitsᵀ·x.
struct RowProducts {
  Tensor x;
  Tensor weight;
  Tensor logits;

  void forward() const {
    dispatch(kOp, x, [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(who,
                   linear_product<T>(rows<const T>(x), elements<const T>(weight), rows<T>(logits)));
    });
  }
  void backward(const Tensor& dx, const Tensor& dweight, Into into) const {
    dispatch(kOp, x, [&](auto who, auto zero) {
      using T = decltype(zero);
      const auto dlogits = rows<const T>(logits);
      if (dx) {
        kernels::run(who, input_gradient<T>(dlogits, elements<const T>(weight), rows<T>(dx)));
      }
      if (dweight) {
        kernels::run(
            who, weight_gradient<T>(dlogits, rows<const T>(x), elements<Wide<T>>(dweight), into));
      }
    });
  }
};

}  // namespace

CrossEntropyResult head_loss(Var x, Var weight, Var targets, Var scale, HeadLossSpec spec) {
  require_float(kOp, "x", x);
  require_same_type(kOp, x, "weight", weight);
  require_vector_type(kOp, x, "scale", scale);
  const Index in = x.shape().cols();
  if (weight.shape().rank() != 2 || weight.shape()[1] != in) {
    throw ShapeError(kOp, "weight", say("(V, I) with I = ", in), weight.shape().text());
  }
  if (targets && targets.dtype() != DType::i32) {
    throw RequestError(say(kOp, ": targets must be ids (i32)."));
  }
  Tape& tape = x.tape();
  const DType dtype = x.dtype();
  const Shape logits{x.shape().rows(), weight.shape()[0]};
  require_loss(kOp, logits, dtype, targets, scale, spec.loss);

  const auto saved = [&](Var input, DType type) {
    return tape.recording() && input.needs_grad() ? tape.saved(input.shape(), type) : Tensor{};
  };
  const Gradients saves{saved(x, dtype), saved(weight, wide(dtype)), saved(scale, wide(dtype))};
  const bool wanted_at_all = saves.x || saves.weight || saves.scale;
  CrossEntropyResult result;
  {
    LossPass pass(kOp, targets, scale, logits, dtype, spec.loss, tape);
    const Index most = rows_at_a_time(spec, logits, dtype);
    const Scratch memory = tape.scratch({most, logits.cols()}, dtype);
    const Scratch share = tape.scratch(saves.scale ? scale.shape() : Shape{1}, wide(dtype));
    // A plan knows after two parts what all of them take.
    const Index end = planning() ? std::min(logits.rows(), 2 * most) : logits.rows();
    for (Index first = 0; first < end; first += most) {
      const Index count = std::min(most, end - first);
      const RowProducts products{
          x.value().row_range(first, count), weight.value(), memory.tensor().row_range(0, count)};
      products.forward();
      const Tensor& u = products.logits;
      const Tensor dscale = !saves.scale ? Tensor{} : first == 0 ? saves.scale : share.tensor();
      pass.rows(u, first, wanted_at_all ? u : Tensor{}, dscale);
      if (saves.scale && first > 0) add(dscale, saves.scale);
      products.backward(saves.x ? saves.x.row_range(first, count) : Tensor{},
                        saves.weight,
                        first == 0 ? Into::set : Into::add);
    }
    result = pass.finish();
  }
  const Var loss = result.loss;
  tape.record(kOp, {x, weight, scale}, {loss}, [=](Backward& b) {
    put_scaled(kOp, b, x, saves.x, loss);
    put_scaled(kOp, b, weight, saves.weight, loss);
    put_scaled(kOp, b, scale, saves.scale, loss);
  });
  return result;
}

}  // namespace norma
