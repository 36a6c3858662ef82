#include "norma/train/run.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <sys/resource.h>

#include "norma/base/clock.h"
#include "norma/base/json_line.h"
#include "norma/base/median.h"
#include "norma/base/stop.h"
#include "norma/base/text.h"
#include "norma/optim/constraints.h"
#include "norma/train/checkpoint.h"
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
        trainer_(recipe, std::move(data)),
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
    for (Index step = trainer_.steps_done() + 1; step <= steps_; ++step) {
      if (stop_signal() != 0) return stop();
      one_step(step);
    }
    result_.steps = steps_;
    finish(RunEnd::done);
    folder_.mark_done(say("steps ", steps_, ", validation loss ", result_.val_loss));
    return result_;
  }

  /// How to open the folder. Weights to start from are read before it is touched.
  RunFolder::Open opened(const RunRequest& request) {
    if (request.resume) return RunFolder::Open::resume;
    load_start();
    return request.force ? RunFolder::Open::replace : RunFolder::Open::fresh;
  }
  void load_start() {
    const std::string& start = trainer_.recipe().train.init_from;
    if (!start.empty()) start_from_run(disk_, start, trainer_);
  }
  std::string checkpoints() const { return io::join(request_.out, "checkpoints"); }

  void prepare() {
    // Before the first step, so that a prompt the model cannot read is refused now.
    if (trainer_.recipe().train.sample_every > 0) {
      samples_.emplace(trainer_.model(), trainer_.recipe().train, tokenizer_of_run(request_.out));
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
      remark(say("going on after step ", state.step, "."));
    } else {
      remark("there is no whole checkpoint; starting at step 0.");
      load_start();
    }
    folder_.drop_lines_after(trainer_.steps_done());
  }

  void one_step(Index step) {
    const TrainSpec& train = trainer_.recipe().train;
    const Stopwatch watch;
    const StepReport report = trainer_.step(train.angle_every > 0 && step % train.angle_every == 0);
    note_step(watch.seconds(), report);
    const bool evaluated = due(train.eval_every, step, steps_) && trainer_.data().val.count > 1;
    if (evaluated) result_.val_loss = trainer_.evaluate().loss;
    const bool logged = due(train.log_every, step, steps_) || evaluated || !report.angles.empty();
    if (logged) survive([&] { write_metrics(report, evaluated); });
    if (train.sample_every > 0 && due(train.sample_every, step, steps_)) {
      survive([&] { write_samples(step); });
    }
    const bool asked = take_save_request();
    if (step == steps_) {
      save(step);
    } else if (asked || due(train.checkpoint_every, step, steps_)) {
      survive([&] { save(step); });
    }
    show(report, logged);
  }

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

  void note_step(double seconds, const StepReport& report) {
    // The first steps allocate and warm caches; the last hundred are enough to be steady.
    constexpr std::size_t kWindow = 100;
    if (recent_s_.size() < kWindow) {
      recent_s_.push_back(seconds);
    } else {
      recent_s_[oldest_] = seconds;
      oldest_ = (oldest_ + 1) % kWindow;
    }
    step_s_ = median(recent_s_);
    clipped_ += report.clipped ? 1 : 0;
    ++since_log_;
    constexpr double kKeep = 0.9;
    smooth_loss_ =
        smooth_loss_ == 0 ? report.loss : kKeep * smooth_loss_ + (1 - kKeep) * report.loss;
    result_.train_loss = smooth_loss_;
  }

  void write_metrics(const StepReport& report, bool evaluated) {
    const auto tokens = static_cast<double>(trainer_.tokens_per_step());
    JsonLine line;
    line.add("step", report.step)
        .add("tokens", report.step * trainer_.tokens_per_step())
        .add("time_s", elapsed_s())
        .add("train/loss", report.loss)
        .add("train/lr", report.lr)
        .add("train/grad_norm", report.grad_norm)
        .add("train/clipped", static_cast<double>(clipped_) / static_cast<double>(since_log_))
        .add("perf/tokens_per_s", tokens / step_s_)
        .add("perf/step_ms", step_s_ * 1e3)
        .add("mem/host_bytes", static_cast<Index>(peak_process_bytes()));
    if (request_.peak_gflops > 0) line.add("perf/mfu", share_of_peak());
    if (evaluated) {
      line.add("val/loss", result_.val_loss);
      const double bytes = trainer_.data().bytes_per_token;
      if (bytes > 0) line.add("val/bpb", result_.val_loss / std::log(2.0) / bytes);
    }
    for (const Angles& angle : report.angles) {
      line.add(say("angle/", word_of(angle.kind)), angle.mean);
      line.add(say("angle/", word_of(angle.kind), "/p95"), angle.p95);
    }
    if (has_unit_weights()) line.add("norm/unit_error", unit_norm_error(trainer_.params()));
    folder_.add_metrics(line.text());
    clipped_ = 0;
    since_log_ = 0;
  }

  void write_samples(Index step) {
    for (const std::string& line : samples_->lines(step)) folder_.add_sample(line);
  }

  bool has_unit_weights() {
    const auto params = trainer_.params().params();
    return std::any_of(params.begin(), params.end(), [](const Param& param) {
      return param.tags.constraint == Constraint::unit;
    });
  }

  double share_of_peak() const {
    return request_.peak_gflops > 0
               ? trainer_.flops_per_step() / step_s_ * 1e-9 / request_.peak_gflops
               : 0;
  }
  double elapsed_s() const { return static_cast<double>(before_ms_) * 1e-3 + watch_.seconds(); }

  void show(const StepReport& report, bool logged) {
    onlooker_({.step = report.step,
               .steps = steps_,
               .loss = smooth_loss_,
               .val_loss = result_.val_loss,
               .lr = report.lr,
               .tokens_per_s = static_cast<double>(trainer_.tokens_per_step()) / step_s_,
               .share_of_peak = share_of_peak(),
               .eta_s = static_cast<double>(steps_ - report.step) * step_s_,
               .logged = logged,
               .trouble = std::exchange(trouble_, {})});
  }

  void save(Index step) {
    if (step == saved_) return;
    const TrainSpec& train = trainer_.recipe().train;
    folder_.sync_lines();
    save_checkpoint(disk_,
                    request_.out,
                    trainer_,
                    {.step = step, .elapsed_ms = static_cast<std::uint64_t>(elapsed_s() * 1e3)});
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
    result_.step_seconds = step_s_;
    result_.bytes = peak_process_bytes();
  }

  void remark(const std::string& text) {
    result_.remarks.push_back(text);
    folder_.log(text);
  }

  RunRequest request_;
  const Onlooker& onlooker_;
  io::FileSystem& disk_;
  Trainer trainer_;
  RunFolder folder_;
  std::optional<TrainingSamples> samples_;
  Index steps_;
  RunResult result_;
  Stopwatch watch_;
  std::vector<double> recent_s_;  // seconds of the last steps
  std::size_t oldest_ = 0;        // which of them goes next
  double step_s_ = 0;             // their median
  std::uint64_t before_ms_ = 0;   // of earlier sittings
  double smooth_loss_ = 0;
  Index clipped_ = 0;
  Index since_log_ = 0;
  Index saved_ = -1;
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
