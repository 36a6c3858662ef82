#include "norma/train/trainer.h"

#include <cmath>
#include <utility>

#include "norma/base/text.h"
#include "norma/optim/constraints.h"
#include "norma/tensor/plain.h"
#include "norma/tensor/planning.h"

namespace norma {

namespace {

Remaking remaking_of(Recompute recompute, bool on_gpu) {
  switch (recompute) {
    case Recompute::automatic:
      return on_gpu ? Remaking::activations : Remaking::nothing;
    case Recompute::activations:
      return Remaking::activations;
    case Recompute::cheap:
      return Remaking::norms;
    case Recompute::nothing:
    case Recompute::blocks:
      break;
  }
  return Remaking::nothing;
}

}  // namespace

Trainer::Trainer(const Recipe& recipe, TokenData data, Start start)
    : recipe_(recipe), data_(std::move(data)), tape_(recipe.device()) {
  const TrainSpec& train = recipe_.train;
  const DType dtype = recipe_.dtype();
  const Device device = recipe_.device();
  if (data_.vocab > recipe_.model.vocab) {
    throw RequestError(say("the data have ",
                           data_.vocab,
                           " token ids, but model.vocab is ",
                           recipe_.model.vocab,
                           "."));
  }
  if (on_gpu() && !planning()) device::info();  // throws where there is none
  tape_.set_remaking(remaking_of(train.recompute, on_gpu()));
  model_ = std::make_unique<Gpt>(recipe_.model, recipe_.scheme, params_);
  params_.allocate(dtype, device, recipe_.masters());
  model_->allocate(dtype, device);
  const auto seed = static_cast<std::uint64_t>(train.seed);
  if (start == Start::drawn && !planning()) {
    model_->init(seed);
    apply_constraints(params_);
  }
  if (!planning()) windows_.emplace(data_.train, recipe_.model.context, seed);
  optimizer_ = make_optimizer(params_, recipe_.optim);
  clipper_.emplace(params_, recipe_.optim);
  weight_norm_.emplace(params_);
  const Index rows = train.rows_at_once();
  batch_ = BatchMemory(train.batch, recipe_.model.context, device);
  eval_batch_ = BatchMemory(rows, recipe_.model.context, device);
  watch_.emplace(train.batch / rows, wide(dtype), device);
  if (on_gpu() && !planning()) reserve_memory();
}

Trainer::~Trainer() {
  if (!on_gpu() || planning()) return;
  try {
    device::synchronize();  // what was queued still reads and writes what goes now
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): who waited for a step has heard of it
  }
}

void Trainer::require_settled() const {
  if (settled()) return;
  throw Error(say(
      "the weights after step ", step_, " were asked for, but step ", begun_, " is on its way."));
}

void Trainer::set_steps_done(Index step) {
  require_settled();
  step_ = begun_ = step;
}

void Trainer::reserve_memory() {
  std::size_t bytes = 0;
  {
    const PlanningScope plan;
    Trainer twin(recipe_, {}, Start::zero);
    twin.step();
    bytes = twin.tape_.arena().touched();
  }
  try {
    tape_.arena().reserve(bytes);
  } catch (const MemoryError& error) {
    throw MemoryError(say("the activations of a step do not fit: ", error.what()));
  }
}

void Trainer::start_anew() {
  require_settled();
  apply_constraints(params_);
  update_.clear();
  optimizer_.reset();  // there may be no room for two
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
          .recompute = recipe_.train.recompute == Recompute::blocks,
          .seed = static_cast<std::uint64_t>(recipe_.train.seed),
          .step = batch_.step(),
          .first_sequence = first_sequence};
}

void Trainer::fill_batch() {
  if (!windows_) return;
  const auto first =
      static_cast<std::uint64_t>(begun_) * static_cast<std::uint64_t>(recipe_.train.batch);
  batch_.fill(
      [&](const Tensor& ids, const Tensor& targets) { windows_->fill(first, ids, targets); },
      begun_);
}

void Trainer::accumulate() {
  const Index rows = micro_batch();
  params_.begin_accumulation();
  for (Index row = 0; row < recipe_.train.batch; row += rows) {
    tape_.reset(begun_);
    // Every micro-batch divides by the tokens of the whole step, so that the sum is one batch's.
    const Var value =
        model_
            ->loss(tape_, batch_.ids(row, rows), batch_.targets(row, rows), loss_spec(), pass(row))
            .loss;
    copy(value.value(), watch_->loss(row / rows));
    tape_.backward(value);
    if (planning()) break;  // the others take the same memory again
  }
  params_.finish_accumulation();
}

bool Trainer::replays() const { return on_gpu() && warm_; }

template <class Work>
void Trainer::queue(device::Graph& graph, Work&& work, const std::int32_t* unless) {
  if (!replays()) return work();
  if (!graph.captured()) graph.capture(work, unless);
  graph.launch();
}

StepReport Trainer::step(const Wish& wish) {
  if (diverged_) throw Error("a run that has diverged cannot go on.");
  if (settled()) {
    begin_step(wish.angles);
  } else if (wish.angles) {
    throw Error("angles were asked of a step that is already under way.");
  }
  if (planning()) return {};
  if (wish.ahead && !wish.angles && replays()) begin_step(false);
  return end_step();
}

void Trainer::begin_step(bool measure_angles) {
  fill_batch();
  if (planning()) return accumulate();  // what follows takes no memory of its own
  OpenStep& now = open(begun_);
  now.report = {};
  now.angles = measure_angles;
  now.looked = false;
  queue(gradients_, [&] {
    accumulate();
    clipper_->clip(params_);
    watch_->guard(*clipper_);
  });
  watch_->send(*clipper_, begun_);
  now.report.lr = lr_at(recipe_.schedule, recipe_.optim.lr, begun_, recipe_.train.steps);
  optimizer_->prepare({.lr = now.report.lr});  // here a GPU is at work and needs no host
  if (!replays()) look();
  if (measure_angles) angles_.before(params_);
  queue(
      update_, [&] { optimizer_->apply(params_, clipper_->grad_scale()); }, watch_->stopped());
  warm_ = true;
  ++begun_;
}

void Trainer::look() {
  OpenStep& now = open(step_);
  const StepFindings found = watch_->findings(step_);
  now.looked = true;
  now.report.loss = found.loss;
  now.report.grad_norm = found.clip.norm;
  now.report.clipped = found.clip.clipped > 0;
  if (!std::isfinite(found.loss)) explain_divergence("loss");
  if (!std::isfinite(found.clip.norm)) explain_divergence("gradient");
}

StepReport Trainer::end_step() {
  OpenStep& now = open(step_);
  if (!now.looked) look();
  require_finite_weights();
  if (now.angles) now.report.angles = angles_.after(params_);
  now.report.step = ++step_;
  return std::move(now.report);
}

void Trainer::require_finite_weights() {
  if (on_gpu()) return;  // one more pass over the weights; the next loss would tell
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
  diverged_ = true;
  begun_ = step_;  // what was ahead has left weights and optimizer's state alone
  fill_batch();
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
  require_settled();
  return norma::evaluate(
      *model_, tape_, eval_batch_, data_.val, {.most_tokens = recipe_.train.eval_tokens});
}

double Trainer::flops_per_step() const {
  return model_->flops_per_token(recipe_.model.context) * static_cast<double>(tokens_per_step());
}

Trainer::Memory Trainer::memory() const {
  const Tensor copies = params_.copies();
  return {.parameters = params_.values().bytes() + (copies ? copies.bytes() : 0),
          .gradients = params_.grads().bytes(),
          .optimizer = optimizer_->state_bytes(),
          .optimizer_scratch = optimizer_->scratch_bytes(),
          .activations = tape_.arena().touched(),
          .data = data_.held_bytes + batch_.bytes() + eval_batch_.bytes(),
          .angles = angles_.bytes()};
}

}  // namespace norma
