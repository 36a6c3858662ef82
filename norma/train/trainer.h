// A run in memory: model, optimizer and data, step by step. It writes nothing.
//
// On a GPU the second step is taken down as two graphs, which every later step replays: forward,
// backward and clipping, and the optimizer. The GPU itself looks at loss and gradient between them:
// once one of them is not finite no graph touches the weights any more, so that a step that
// diverges leaves them as they were, and those that were queued behind it do too. What changes from
// step to step lies in memory that the graphs read: the batch, and the numbers of the optimizer.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "norma/data/batches.h"
#include "norma/data/token_data.h"
#include "norma/device/device.h"
#include "norma/models/gpt.h"
#include "norma/optim/angle_meter.h"
#include "norma/optim/clip.h"
#include "norma/optim/optimizer.h"
#include "norma/optim/step_watch.h"
#include "norma/train/batch_memory.h"
#include "norma/train/evaluate.h"
#include "norma/train/recipe.h"

namespace norma {

/// The loss or a gradient stopped being a number; the text says where it began.
class DivergedError : public Error {
 public:
  using Error::Error;
};

struct StepReport {
  Index step = 0;  // just done, counted from 1
  double loss = 0;
  double lr = 0;
  double grad_norm = 0;  // before clipping
  bool clipped = false;
  std::vector<Angles> angles;  // where they were asked for
};

class Trainer {
 public:
  enum class Start : std::uint8_t { drawn, zero };
  /// Builds everything and sets the start values (zero is enough to time steps). The data may be
  /// empty while planning.
  Trainer(const Recipe& recipe, TokenData data, Start start = Start::drawn);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// After weights came from elsewhere: what holds for them holds again, and the optimizer starts
  /// from them.
  void start_anew();

  struct Wish {
    bool angles = false;  // measure them
    /// Another step without angles will follow, and nobody looks at the weights before: where a GPU
    /// replays steps, that one is queued before this one is waited for, so that the GPU never
    /// waits.
    bool ahead = false;
  };
  /// One optimizer step over train.batch sequences, in micro-batches. Throws DivergedError, with
  /// the weights as they were before the step, when the loss or the gradient is not finite; and
  /// with the weights as they are when the step itself made one that is not. The trainer cannot go
  /// on then: its optimizer has counted the step.
  StepReport step(const Wish& wish);
  StepReport step() { return step({}); }
  /// Over the validation split, or over train.eval_tokens of it; nothing where a stop signal came.
  std::optional<Evaluation> evaluate();

  Index steps_done() const { return step_; }
  /// Whether the weights are those after steps_done() steps: none is ahead.
  bool settled() const { return begun_ == step_; }
  /// Before anyone looks at them: throws where they are not.
  void require_settled() const;
  /// For resuming: the next step is number `step`, counted from 0.
  void set_steps_done(Index step);
  Index tokens_per_step() const { return recipe_.train.batch * recipe_.model.context; }
  double flops_per_step() const;

  const Recipe& recipe() const { return recipe_; }
  Gpt& model() { return *model_; }
  ParamStore& params() { return params_; }
  const ParamStore& params() const { return params_; }
  Optimizer& optimizer() { return *optimizer_; }
  const TokenData& data() const { return data_; }
  Tape& tape() { return tape_; }
  Index micro_batch() const { return eval_batch_.rows(); }

  /// Bytes held, by what holds them.
  struct Memory {
    std::size_t parameters = 0;
    std::size_t gradients = 0;
    std::size_t optimizer = 0;          // its state
    std::size_t optimizer_scratch = 0;  // what it needs besides
    std::size_t activations = 0;
    std::size_t data = 0;
    std::size_t angles = 0;  // a copy of the weights, once angles were measured
    std::size_t total() const {
      return parameters + gradients + optimizer + optimizer_scratch + activations + data + angles;
    }
  };
  Memory memory() const;

 private:
  /// A step that was begun and not yet reported.
  struct OpenStep {
    StepReport report;
    bool angles = false;
    bool looked = false;  // at its loss and gradient
  };
  OpenStep& open(Index step) { return open_[static_cast<std::size_t>(step % StepWatch::kSteps)]; }
  void begin_step(bool measure_angles);
  StepReport end_step();
  /// Waits for the loss and the gradient of the first step that is not reported.
  void look();

  void fill_batch();
  void accumulate();
  /// Whether steps are replayed from here on.
  bool replays() const;
  /// Does it, or replays what it once queued; replays nothing where `*unless` is not 0 by then.
  template <class Work>
  void queue(device::Graph& graph, Work&& work, const std::int32_t* unless = nullptr);
  bool on_gpu() const { return recipe_.train.device == DeviceKind::cuda; }
  void reserve_memory();
  [[noreturn]] void explain_divergence(const char* what);
  void require_finite_weights();
  LossSpec loss_spec() const;
  Pass pass(Index first_sequence) const;

  Recipe recipe_;
  TokenData data_;
  ParamStore params_;
  std::unique_ptr<Gpt> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<Clipper> clipper_;
  std::optional<StepWatch> watch_;
  std::optional<GlobalNorm> weight_norm_;
  std::optional<TrainWindows> windows_;
  AngleMeter angles_;
  Tape tape_;
  BatchMemory batch_;       // of a step
  BatchMemory eval_batch_;  // as many sequences as are computed at a time
  device::Graph gradients_;
  device::Graph update_;
  std::array<OpenStep, StepWatch::kSteps> open_;
  bool warm_ = false;      // a step has been computed: nothing is allocated or chosen any more
  bool diverged_ = false;  // it cannot go on
  Index step_ = 0;         // reported
  Index begun_ = 0;        // queued, or computed
};

}  // namespace norma
