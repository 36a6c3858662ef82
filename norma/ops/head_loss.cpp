#include "norma/ops/head_loss.h"

#include <algorithm>

#include "norma/kernels/row_scale.h"
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
  Tensor shares;  // what rows of x are still multiplied by; where the loss came with odds

  bool any() const { return x || weight || scale; }
};

/// The products of some rows: logits = x·Wᵀ, then dx = dlogits·W and dW += dlogitsᵀ·right.
struct RowProducts {
  Tensor x;
  Tensor weight;
  Tensor logits;
  Tensor right;  // x, or x with what dlogits were not multiplied by

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
            who,
            weight_gradient<T>(dlogits, rows<const T>(right), elements<Wide<T>>(dweight), into));
      }
    });
  }
};

/// The way of kernels/head_odds.h, where it goes. Its kernel knows no scale per class, which is one
/// of the rows of the weight: z = s_z·(W·x) = (s_z·W)·x.
class OddsWay {
 public:
  OddsWay(LossPass& pass,
          Var x,
          Var weight,
          Var scale,
          double mult,
          const Gradients& wanted,
          Index most)
      : pass_(pass),
        weight_(weight),
        scale_(scale),
        mult_(mult),
        goes_(wanted.any() && (wanted.weight || !wanted.scale) &&
              pass.has_odds(x.value(), weight.value())),
        shared_x_(scratch(goes_, {most, weight.shape()[1]})),
        scaled_weight_(scratch(goes_ && scale, weight.shape())) {
    if (!goes_ || !scale_) return;
    dispatch(kOp, weight_.value(), [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(kernels::few(who),
                   kernels::RowScale<T>{.from = rows<const T>(weight_.value()),
                                        .scale = elements<const Wide<T>>(scale_),
                                        .mult = mult_,
                                        .to = rows<T>(scaled_weight_.tensor())});
    });
  }

  bool goes() const { return goes_; }

  /// Odds in the place of logits, and what their products for the gradients take.
  void part(RowProducts& products, Index first, const Tensor& shares) const {
    products.weight = scale_ ? scaled_weight_.tensor() : weight_.value();
    products.right = shared_x_.tensor().row_range(0, products.x.shape.rows());
    pass_.odds(products.x, products.weight, first, products.logits, products.right, shares);
  }

  /// After all parts: the gradient of what was multiplied becomes that of the weight.
  void finish(const Gradients& saves) const {
    if (!goes_ || !scale_ || !saves.weight) return;
    dispatch(kOp, weight_.value(), [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(kernels::few(who),
                   kernels::RowScaleBackward<T>{.from = rows<const T>(weight_.value()),
                                                .scale = elements<const Wide<T>>(scale_),
                                                .mult = mult_,
                                                .d = rows<Wide<T>>(saves.weight),
                                                .dscale = elements<Wide<T>>(saves.scale)});
    });
  }

 private:
  Scratch scratch(bool wanted, const Shape& shape) const {
    return weight_.tape().scratch(wanted ? shape : Shape{1}, weight_.dtype());
  }

  LossPass& pass_;
  Var weight_;
  Var scale_;
  double mult_;
  bool goes_;
  Scratch shared_x_;
  Scratch scaled_weight_;
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
  Gradients saves{saved(x, dtype), saved(weight, wide(dtype)), saved(scale, wide(dtype)), Tensor{}};
  CrossEntropyResult result;
  {
    LossPass pass(kOp, targets, scale, logits, dtype, spec.loss, tape);
    const Index most = rows_at_a_time(spec, logits, dtype);
    const Scratch memory = tape.scratch({most, logits.cols()}, dtype);
    const Scratch share = tape.scratch(saves.scale ? scale.shape() : Shape{1}, wide(dtype));
    const OddsWay odds(pass, x, weight, scale, spec.loss.scale_mult, saves, most);
    if (odds.goes()) saves.shares = tape.saved({logits.rows()}, wide(dtype));
    for (Index first = 0; first < logits.rows(); first += most) {
      // A plan knows after two parts and the last, which may be smaller, what all of them take.
      if (planning() && first >= 2 * most && first + most < logits.rows()) continue;
      const Index count = std::min(most, logits.rows() - first);
      const Tensor of_part = x.value().row_range(first, count);
      RowProducts products{of_part, weight.value(), memory.tensor().row_range(0, count), of_part};
      if (odds.goes()) {
        odds.part(products, first, saves.shares);
      } else {
        products.forward();
        const Tensor& u = products.logits;
        const Tensor dscale = !saves.scale || first == 0 ? saves.scale : share.tensor();
        pass.rows(u, first, saves.any() ? u : Tensor{}, dscale);
        if (saves.scale && first > 0) add(dscale, saves.scale);
      }
      products.backward(saves.x ? saves.x.row_range(first, count) : Tensor{},
                        saves.weight,
                        first == 0 ? Into::set : Into::add);
    }
    odds.finish(saves);
    result = pass.finish();
  }
  const Var loss = result.loss;
  tape.record(kOp, {x, weight, scale}, {loss}, [=](Backward& b) {
    put_scaled(kOp, b, x, saves.x, loss, saves.shares);
    put_scaled(kOp, b, weight, saves.weight, loss);
    put_scaled(kOp, b, scale, saves.scale, loss);
  });
  return result;
}

}  // namespace norma
