#include "norma/ops/cross_entropy.h"

#include "norma/ops/dispatch.h"
#include "norma/ops/loss_rows.h"

namespace norma {

CrossEntropyResult cross_entropy(Var logits, Var targets, Var scale, CrossEntropySpec spec) {
  constexpr std::string_view kOp = "cross_entropy";
  require_float(kOp, "logits", logits);
  require_vector_type(kOp, logits, "scale", scale);
  require_loss(kOp, logits.shape(), logits.dtype(), targets, scale, spec);

  Tape& tape = logits.tape();
  const DType dtype = logits.dtype();
  // Without a wish for gradients the logits stay as they are.
  const bool scale_wanted = tape.recording() && scale.needs_grad();
  const bool wanted_at_all = scale_wanted || (tape.recording() && logits.needs_grad());
  const bool in_place = wanted_at_all && tape.may_overwrite(logits);
  const Tensor u = logits.value();
  Tensor du;
  if (wanted_at_all) du = in_place ? u : tape.saved(logits.shape(), dtype);
  const Tensor dscale = scale_wanted ? tape.saved(scale.shape(), wide(dtype)) : Tensor{};
  CrossEntropyResult result;
  {
    LossPass pass(kOp, targets, scale, logits.shape(), dtype, spec, tape);
    pass.rows(u, 0, du, dscale);
    result = pass.finish();
  }
  if (in_place) tape.consume(logits);
  const Var loss = result.loss;
  tape.record(kOp, {logits, scale}, {loss}, [=](Backward& b) {
    if (in_place && b.is_unit_seed(loss) && b.wants(logits)) {
      b.lend(logits, du);
    } else {
      put_scaled(kOp, b, logits, du, loss);
    }
    put_scaled(kOp, b, scale, dscale, loss);
  });
  return result;
}

}  // namespace norma
