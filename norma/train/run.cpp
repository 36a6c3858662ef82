#include "norma/train/run.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <sys/resource.h>

#include "norma/base/clock.h"
#include "norma/base/json_line.h"
#include "norma/base/median.h"
#include "norma/base/stop.h"
#include "norma/base/text.h"
#include "norma/optim/constraints.h"
#include "norma/train/checkpoint.h"

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
  Run(const Recipe& recipe, TokenData data, const RunRequest& request, const Onlooker& onlooker)
      : request_(request),
        onlooker_(onlooker),
        trainer_(recipe, std::move(data)),
        folder_(io::real_file_system(), request.out, opened(request), recipe),
        steps_(recipe.train.steps) {
    result_.remarks = recipe.warnings;
  }

  RunResult go() {
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

 private:
  /// How to open the folder. Weights to start from are read before it is touched.
  RunFolder::Open opened(const RunRequest& request) {
    if (request.resume) return RunFolder::Open::resume;
    load_start();
    return request.force ? RunFolder::Open::replace : RunFolder::Open::fresh;
  }
  void load_start() {
    const std::string& start = trainer_.recipe().train.init_from;
    if (!start.empty()) start_from_run(io::real_file_system(), start, trainer_);
  }
  std::string checkpoints() const { return io::join(request_.out, "checkpoints"); }

  void prepare() {
    io::FileSystem& disk = io::real_file_system();
    const Trainer::Memory memory = trainer_.memory();
    io::prepare_checkpoints(
        disk, checkpoints(), folder_.lock(), 2 * (memory.parameters + memory.optimizer));
    if (!request_.resume) return;
    const io::NewestCheckpoint found = io::newest_whole(disk, checkpoints());
    for (const io::SkippedCheckpoint& skipped : found.skipped) {
      remark(say("skipped ", skipped.folder, ": ", skipped.why));
    }
    if (found.whole) {
      const RunState state = load_checkpoint(disk, found.whole->folder, trainer_);
      before_ms_ = state.elapsed_ms;
      remark(say("going on after step ", state.step, "."));
    } else {
      remark("there is no whole checkpoint; starting at step 0.");
      load_start();
    }
    folder_.drop_metrics_after(trainer_.steps_done());
  }

  void one_step(Index step) {
    const TrainSpec& train = trainer_.recipe().train;
    const Stopwatch watch;
    StepReport report;
    try {
      report = trainer_.step(train.angle_every > 0 && step % train.angle_every == 0);
    } catch (const DivergedError& error) {
      folder_.log(error.what());
      folder_.mark_failed(error.what());
      throw;
    }
    note_step(watch.seconds(), report);
    const bool evaluated = due(train.eval_every, step, steps_) && trainer_.data().val.count > 1;
    if (evaluated) result_.val_loss = trainer_.evaluate().loss;
    const bool logged = due(train.log_every, step, steps_) || evaluated || !report.angles.empty();
    if (logged) write_metrics(report, evaluated);
    if (due(train.checkpoint_every, step, steps_)) save(step);
    show(report, logged);
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
      line.add("val/bpb", result_.val_loss / std::log(2.0) / trainer_.data().bytes_per_token);
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
               .logged = logged});
  }

  void save(Index step) {
    if (step == saved_) return;
    const TrainSpec& train = trainer_.recipe().train;
    save_checkpoint(io::real_file_system(),
                    request_.out,
                    trainer_,
                    {.step = step, .elapsed_ms = static_cast<std::uint64_t>(elapsed_s() * 1e3)});
    saved_ = step;
    io::KeepRule keep;
    keep.last = static_cast<std::uint64_t>(train.keep_last);
    keep.every = static_cast<std::uint64_t>(train.keep_every);
    io::retain(io::real_file_system(), checkpoints(), keep);
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
  Trainer trainer_;
  RunFolder folder_;
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
};

}  // namespace

RunResult train_run(const Recipe& recipe,
                    TokenData data,
                    const RunRequest& request,
                    const Onlooker& onlooker) {
  if (request.resume && is_done(request.out)) {
    RunResult result;
    result.end = RunEnd::was_done;
    return result;
  }
  return Run(recipe, std::move(data), request, onlooker).go();
}

}  // namespace norma
