#include "norma/train/run.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <sys/resource.h>

#include "norma/base/clock.h"
#include "norma/base/stop.h"
#include "norma/base/text.h"
#include "norma/device/device.h"
#include "norma/train/checkpoint.h"
#include "norma/train/forecast.h"
#include "norma/train/kept_choices.h"
#include "norma/train/resume_rule.h"
#include "norma/train/run_meter.h"
#include "norma/train/trained_model.h"
#include "norma/train/training_samples.h"

namespace norma {

std::size_t peak_process_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

namespace {

bool due(Index every, Index step, Index last) {
  return step == last || (every > 0 && step % every == 0);
}

/// Before anything is allocated, so that the answer says what would fit.
const Recipe& that_fits(const Recipe& recipe) {
  if (recipe.train.device == DeviceKind::cpu) return recipe;
  const Forecast plan = plan_memory(recipe, {});
  if (const auto why = too_large(recipe, plan)) throw MemoryError(*why);
  return recipe;
}

class Run {
 public:
  Run(const Recipe& recipe,
      TokenData data,
      const RunRequest& request,
      const Onlooker& onlooker,
      io::FileSystem& disk)
      : request_(request),
        onlooker_(onlooker),
        disk_(disk),
        trainer_(that_fits(recipe), std::move(data)),
        meter_(trainer_, request.peak_gflops),
        folder_(disk, request.out, opened(request), recipe, trainer_.data().tokenizer),
        steps_(recipe.train.steps) {
    result_.remarks = recipe.warnings;
  }

  RunResult go() {
    try {
      return run_steps();
    } catch (const DivergedError& error) {
      fail(error.what());
      throw;
    }
  }

 private:
  RunResult run_steps() {
    prepare();
    look_at(trainer_.steps_done());
    for (Index step = trainer_.steps_done() + 1; step <= steps_; ++step) {
      if (stop_signal() != 0 && trainer_.settled()) return stop();
      one_step(step);
    }
    if (has_open_work()) return stop();
    result_.steps = steps_;
    finish(RunEnd::done);
    folder_.mark_done(say("steps ", steps_, ", validation loss ", result_.val_loss));
    return result_;
  }

  /// How to open the folder. Weights to start from are read before it is touched.
  RunFolder::Open opened(const RunRequest& request) {
    if (request.resume) {
      if (is_run(disk_, request.out)) {
        require_same_run(request.out, recipe_of_run(request.out, disk_), trainer_.recipe());
      }
      return RunFolder::Open::resume;
    }
    load_start();
    return request.force ? RunFolder::Open::replace : RunFolder::Open::fresh;
  }
  void load_start() {
    const std::string& start = trainer_.recipe().train.init_from;
    if (!start.empty()) start_from_run(disk_, start, trainer_);
  }
  std::string checkpoints() const { return checkpoints_of(request_.out); }

  void prepare() {
    // Before the first step, so that a prompt the model cannot read is refused now.
    if (trainer_.recipe().train.sample_every > 0) {
      samples_.emplace(trainer_.model(), trainer_.recipe().train, tokenizer_of_run(request_.out));
    }
    if (trainer_.recipe().train.device == DeviceKind::cuda) {
      choices_.emplace(disk_, KeptChoices::Files{choices_of(request_.out), choices_path()});
    }
    const Trainer::Memory memory = trainer_.memory();
    const TrainSpec& train = trainer_.recipe().train;
    const Index planned = train.checkpoint_every > 0 ? steps_ / train.checkpoint_every + 1 : 1;
    // One more than are kept: a new one is written before an old one goes.
    const auto held = static_cast<std::uint64_t>(std::min(train.keep_last + 1, planned));
    io::prepare_checkpoints(
        disk_, checkpoints(), folder_.lock(), held * (memory.parameters + memory.optimizer));
    if (!request_.resume) return;
    const io::NewestCheckpoint found = io::newest_whole(disk_, checkpoints());
    for (const io::SkippedCheckpoint& skipped : found.skipped) {
      remark(say("skipped ", skipped.folder, ": ", skipped.why));
    }
    if (found.whole) {
      const RunState state = load_checkpoint(disk_, found.whole->folder, trainer_);
      before_ms_ = state.elapsed_ms;
      open_ = state.open;
      saved_ = state.step;
      remark(say("going on after step ", state.step, "."));
    } else {
      remark("there is no whole checkpoint; starting at step 0.");
      load_start();
    }
    const Index done = trainer_.steps_done();
    folder_.drop_lines_after({.metrics = open_.metrics.empty() ? done : done - 1,
                              .samples = open_.samples ? done - 1 : done});
  }

  bool measures_angles(Index step) const {
    const Index every = trainer_.recipe().train.angle_every;
    return every > 0 && step % every == 0;
  }
  bool evaluates(Index step) const {
    return due(trainer_.recipe().train.eval_every, step, steps_) && trainer_.data().val.count > 1;
  }
  bool logs(Index step) const { return due(trainer_.recipe().train.log_every, step, steps_); }
  bool samples(Index step) const {
    const Index every = trainer_.recipe().train.sample_every;
    return every > 0 && due(every, step, steps_);
  }
  bool saves(Index step) const {
    return due(trainer_.recipe().train.checkpoint_every, step, steps_);
  }
  /// Whether nobody looks at the weights between this step and the next.
  bool goes_on(Index step) const {
    const bool looks = evaluates(step) || samples(step) || saves(step) || measures_angles(step) ||
                       (logs(step) && meter_.looks_at_weights());
    return !looks && !measures_angles(step + 1) && stop_signal() == 0 && !save_requested();
  }

  void one_step(Index step) {
    // A step that was ahead began when the one before it ended.
    if (trainer_.settled()) step_watch_.restart();
    const StepReport report =
        trainer_.step({.angles = measures_angles(step), .ahead = goes_on(step)});
    meter_.note(step_watch_.seconds(), report);
    step_watch_.restart();
    if (choices_) survive([&] { choices_->save(); });
    result_.train_loss = meter_.smooth_loss();
    const bool logged = logs(step) || evaluates(step) || measures_angles(step);
    const std::string line = logged ? meter_.line(report, elapsed_s()) : "";
    if (logged && !evaluates(step)) survive([&] { folder_.add_metrics(line); });
    open_ = {.metrics = evaluates(step) ? line : "", .samples = samples(step)};
    look_at(step);
    const bool asked = trainer_.settled() && take_save_request();
    // A signal that broke off the look saves too, in stop().
    if (step == steps_ && !has_open_work()) {
      save(step);
    } else if (asked || saves(step)) {
      survive([&] { save(step); });
    }
    show(report, logged);
  }

  /// Evaluates and samples what is due after a step. What a stop signal breaks off stays open, and
  /// the checkpoint remembers it.
  void look_at(Index step) {
    if (!open_.metrics.empty()) {
      const std::optional<Evaluation> found = trainer_.evaluate();
      if (!found) return;
      result_.val_loss = found->loss;
      survive([&] { folder_.add_metrics(meter_.with_evaluation(open_.metrics, *found)); });
      open_.metrics.clear();
    }
    if (open_.samples) {
      const std::optional<std::vector<std::string>> lines = samples_->lines(step);
      if (!lines) return;
      survive([&] {
        for (const std::string& line : *lines) folder_.add_sample(line);
      });
      open_.samples = false;
    }
  }
  bool has_open_work() const { return !open_.metrics.empty() || open_.samples; }

  /// Does something that touches the disk. A disk that is full now may not be at the next
  /// checkpoint, so training goes on, and the onlooker hears of it. The last save has no next
  /// chance and is not called through here.
  template <class Act>
  void survive(Act&& act) {
    try {
      act();
    } catch (const DivergedError&) {
      throw;
    } catch (const Error& error) {
      trouble_ = error.what();
      folder_.log(trouble_);
    }
  }

  void fail(const std::string& reason) {
    folder_.log(reason);
    try {
      folder_.mark_failed(reason);
    } catch (const io::FileError&) {
      // The reason itself is on its way to the user.
    }
  }

  double elapsed_s() const { return static_cast<double>(before_ms_) * 1e-3 + watch_.seconds(); }

  void show(const StepReport& report, bool logged) {
    onlooker_({.step = report.step,
               .steps = steps_,
               .loss = meter_.smooth_loss(),
               .val_loss = result_.val_loss,
               .lr = report.lr,
               .tokens_per_s = meter_.tokens_per_s(),
               .share_of_peak = meter_.share_of_peak(),
               .eta_s = static_cast<double>(steps_ - report.step) * meter_.step_seconds(),
               .logged = logged,
               .trouble = std::exchange(trouble_, {})});
  }

  void save(Index step) {
    if (step == saved_) return;
    const TrainSpec& train = trainer_.recipe().train;
    folder_.sync_lines();
    save_checkpoint(
        disk_,
        request_.out,
        trainer_,
        {.step = step, .elapsed_ms = static_cast<std::uint64_t>(elapsed_s() * 1e3), .open = open_});
    saved_ = step;
    io::KeepRule keep;
    keep.last = static_cast<std::uint64_t>(train.keep_last);
    keep.every = static_cast<std::uint64_t>(train.keep_every);
    io::retain(disk_, checkpoints(), keep);
  }

  RunResult stop() {
    result_.steps = trainer_.steps_done();
    if (result_.steps > 0) save(result_.steps);
    remark(say("stopped by signal ",
               stop_signal(),
               " after step ",
               result_.steps,
               "; the same command with --resume goes on."));
    finish(RunEnd::stopped);
    return result_;
  }

  void finish(RunEnd end) {
    result_.end = end;
    result_.seconds = watch_.seconds();
    result_.step_seconds = meter_.step_seconds();
    result_.bytes = peak_process_bytes();
    if (trainer_.recipe().train.device == DeviceKind::cuda) {
      result_.bytes = device::info().taken_bytes();
    }
  }

  void remark(const std::string& text) {
    result_.remarks.push_back(text);
    folder_.log(text);
  }

  RunRequest request_;
  const Onlooker& onlooker_;
  io::FileSystem& disk_;
  Trainer trainer_;
  RunMeter meter_;
  RunFolder folder_;
  std::optional<TrainingSamples> samples_;
  std::optional<KeptChoices> choices_;  // of a GPU
  Index steps_;
  RunResult result_;
  Stopwatch watch_;
  Stopwatch step_watch_;
  std::uint64_t before_ms_ = 0;  // of earlier sittings
  Index saved_ = -1;
  OpenWork open_;        // of the last step
  std::string trouble_;  // of this step, for the onlooker
};

}  // namespace

RunResult train_run(const Recipe& recipe,
                    TokenData data,
                    const RunRequest& request,
                    const Onlooker& onlooker,
                    io::FileSystem& disk) {
  if (request.resume && is_done(disk, request.out)) {
    RunResult result;
    result.end = RunEnd::was_done;
    return result;
  }
  return Run(recipe, std::move(data), request, onlooker, disk).go();
}

}  // namespace norma
