#include "norma/train/trainer.h"

#include <cmath>

#include "norma/base/text.h"
#include "norma/optim/constraints.h"
#include "norma/tensor/planning.h"

namespace norma {

Trainer::Trainer(const Recipe& recipe, TokenData data, Start start)
    : recipe_(recipe), data_(std::move(data)) {
  const TrainSpec& train = recipe_.train;
  const DType dtype = dtype_of(train.precision);
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
  if (measure_angles) report.angles = angles_.after(params_);
  report.step = ++step_;
  return report;
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

Evaluation Trainer::evaluate(const TokenView& tokens, Index most_tokens) {
  const ValWindows windows(tokens, recipe_.model.context, most_tokens);
  const Pass pass{.training = false};
  Evaluation result;
  double sum = 0;
  for (Index first = 0; first < windows.count(); first += micro_batch()) {
    windows.fill(first, ids_.tensor, targets_.tensor);
    tape_.reset(step_);
    const Var losses = tape_.evaluate(
        [&] { return model_->loss(tape_, ids_.tensor, targets_.tensor, {}, pass).token_losses; });
    const Tensor values = losses.value();
    for (Index i = 0; i < values.count(); ++i) sum += value_at(values, 0, i);
  }
  result.tokens = windows.tokens();
  result.loss = sum / static_cast<double>(result.tokens);
  return result;
}

double Trainer::flops_per_step() const {
  return model_->flops_per_token(recipe_.model.context) * static_cast<double>(tokens_per_step());
}

Trainer::Memory Trainer::memory() const {
  return {.parameters = params_.values().bytes(),
          .gradients = params_.grads().bytes(),
          .optimizer = optimizer_->state_bytes(),
          .activations = tape_.arena().touched(),
          .data = static_cast<std::size_t>((data_.train.count + data_.val.count) *
                                           data_.train.bytes_per_token) +
                  ids_.tensor.bytes() + targets_.tensor.bytes()};
}

}  // namespace norma
