#include "norma/train/trainer.h"

#include <cmath>

#include "norma/base/text.h"
#include "norma/optim/constraints.h"
#include "norma/tensor/plain.h"
#include "norma/tensor/planning.h"

namespace norma {

Trainer::Trainer(const Recipe& recipe, TokenData data, Start start)
    : recipe_(recipe), data_(std::move(data)) {
  const TrainSpec& train = recipe_.train;
  const DType dtype = recipe_.dtype();
  if (data_.vocab > recipe_.model.vocab) {
    throw RequestError(say("the data have ",
                           data_.vocab,
                           " token ids, but model.vocab is ",
                           recipe_.model.vocab,
                           "."));
  }
  model_ = std::make_unique<Gpt>(recipe_.model, recipe_.scheme, params_);
  params_.allocate(dtype);
  model_->allocate(dtype);
  const auto seed = static_cast<std::uint64_t>(train.seed);
  if (start == Start::drawn && !planning()) {
    model_->init(seed);
    apply_constraints(params_);
  }
  if (!planning()) windows_.emplace(data_.train, recipe_.model.context, seed);
  optimizer_ = make_optimizer(params_, recipe_.optim);
  clipper_.emplace(params_, recipe_.optim);
  weight_norm_.emplace(params_);
  const Index rows = train.micro_batch == 0 ? train.batch : train.micro_batch;
  ids_ = OwnedTensor({rows, recipe_.model.context}, DType::i32);
  targets_ = OwnedTensor({rows * recipe_.model.context}, DType::i32);
}

void Trainer::start_anew() {
  apply_constraints(params_);
  optimizer_ = make_optimizer(params_, recipe_.optim);
}

LossSpec Trainer::loss_spec() const {
  return {.smoothing = recipe_.train.label_smoothing,
          .z_loss = recipe_.train.z_loss,
          .tokens = static_cast<double>(tokens_per_step()),
          .precondition = recipe_.train.precondition};
}

Pass Trainer::pass(Index first_sequence) const {
  return {.training = true,
          .recompute = recipe_.train.recompute,
          .seed = static_cast<std::uint64_t>(recipe_.train.seed),
          .step = static_cast<std::uint64_t>(step_),
          .first_sequence = first_sequence};
}

double Trainer::accumulate() {
  const Index rows = micro_batch();
  const auto first =
      static_cast<std::uint64_t>(step_) * static_cast<std::uint64_t>(recipe_.train.batch);
  double loss = 0;
  params_.begin_accumulation();
  for (Index row = 0; row < recipe_.train.batch; row += rows) {
    if (windows_) {
      windows_->fill(first + static_cast<std::uint64_t>(row), ids_.tensor, targets_.tensor);
    }
    tape_.reset(step_);
    // Every micro-batch divides by the tokens of the whole step, so that the sum is one batch's.
    const Var value =
        model_->loss(tape_, ids_.tensor, targets_.tensor, loss_spec(), pass(row)).loss;
    loss += value_at(value.value(), 0, 0);
    tape_.backward(value);
    if (planning()) break;  // the others take the same memory again
  }
  params_.finish_accumulation();
  return loss;
}

StepReport Trainer::step(bool measure_angles) {
  StepReport report;
  report.loss = accumulate();
  if (planning()) return report;  // what follows takes no memory of its own
  if (!std::isfinite(report.loss)) explain_divergence("loss");
  const ClipResult clip = (*clipper_)(params_);
  report.grad_norm = clip.norm;
  report.clipped = clip.clipped > 0;
  if (!std::isfinite(clip.norm)) explain_divergence("gradient");
  report.lr = lr_at(recipe_.schedule, recipe_.optim.lr, step_, recipe_.train.steps);
  if (measure_angles) angles_.before(params_);
  optimizer_->step(params_, {.lr = report.lr, .grad_scale = clip.grad_scale});
  require_finite_weights();
  if (measure_angles) report.angles = angles_.after(params_);
  report.step = ++step_;
  return report;
}

void Trainer::require_finite_weights() {
  if (std::isfinite(weight_norm_->of(params_.values()))) return;
  // The sum of squares may overflow where no value does.
  for (const Param& param : params_.params()) {
    if (all_finite(params_.value(param))) continue;
    throw DivergedError(say("the weights ",
                            param.name,
                            " are not finite after step ",
                            step_ + 1,
                            ", although loss and gradient were: the optimizer's state is damaged "
                            "or the step too long. Go on with --resume from the last checkpoint, "
                            "or try a lower optim.lr."));
  }
}

void Trainer::explain_divergence(const char* what) {
  std::string where = "it could not be found again when the step was traced";
  tape_.set_trace(true);
  try {
    accumulate();
  } catch (const NonFiniteError& error) {
    where = error.what();
  }
  tape_.set_trace(false);
  throw DivergedError(say("the ",
                          what,
                          " is not a finite number at step ",
                          step_ + 1,
                          ": ",
                          where,
                          " Try a lower optim.lr, a longer schedule.warmup, or clipping."));
}

std::optional<Evaluation> Trainer::evaluate() {
  return norma::evaluate(
      *model_,
      tape_,
      data_.val,
      {.most_tokens = recipe_.train.eval_tokens, .ids = ids_.tensor, .targets = targets_.tensor});
}

double Trainer::flops_per_step() const {
  return model_->flops_per_token(recipe_.model.context) * static_cast<double>(tokens_per_step());
}

Trainer::Memory Trainer::memory() const {
  return {.parameters = params_.values().bytes(),
          .gradients = params_.grads().bytes(),
          .optimizer = optimizer_->state_bytes(),
          .activations = tape_.arena().touched(),
          .data = data_.held_bytes + ids_.tensor.bytes() + targets_.tensor.bytes()};
}

}  // namespace norma
