#include "norma/train/run_meter.h"

#include <algorithm>

#include "norma/base/json_line.h"
#include "norma/base/median.h"
#include "norma/base/text.h"
#include "norma/device/device.h"
#include "norma/optim/constraints.h"
#include "norma/train/run.h"

namespace norma {

void RunMeter::note(double seconds, const StepReport& report) {
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
  ++since_line_;
  constexpr double kKeep = 0.9;
  smooth_loss_ = smooth_loss_ == 0 ? report.loss : kKeep * smooth_loss_ + (1 - kKeep) * report.loss;
}

double RunMeter::tokens_per_s() const {
  return static_cast<double>(trainer_.tokens_per_step()) / step_s_;
}

double RunMeter::share_of_peak() const {
  return peak_gflops_ > 0 ? trainer_.flops_per_step() / step_s_ * 1e-9 / peak_gflops_ : 0;
}

bool RunMeter::looks_at_weights() const {
  const auto params = trainer_.params().params();
  return std::any_of(params.begin(), params.end(), [](const Param& param) {
    return param.tags.constraint == Constraint::unit;
  });
}

std::string RunMeter::line(const StepReport& report, double elapsed_s) {
  JsonLine line;
  line.add("step", report.step)
      .add("tokens", report.step * trainer_.tokens_per_step())
      .add("time_s", elapsed_s)
      .add("train/loss", report.loss)
      .add("train/lr", report.lr)
      .add("train/grad_norm", report.grad_norm)
      .add("train/clipped", static_cast<double>(clipped_) / static_cast<double>(since_line_))
      .add("perf/tokens_per_s", tokens_per_s())
      .add("perf/step_ms", step_s_ * 1e3)
      .add("mem/host_bytes", static_cast<Index>(peak_process_bytes()));
  if (trainer_.recipe().train.device == DeviceKind::cuda) {
    const device::Info gpu = device::info();
    line.add("mem/device_bytes", static_cast<Index>(gpu.taken_bytes()));
  }
  if (peak_gflops_ > 0) line.add("perf/mfu", share_of_peak());
  for (const Angles& angle : report.angles) {
    line.add(say("angle/", word_of(angle.kind)), angle.mean);
    line.add(say("angle/", word_of(angle.kind), "/p95"), angle.p95);
  }
  if (looks_at_weights()) {
    line.add("norm/unit_error", unit_norm_error(trainer_.params()));
  }
  clipped_ = 0;
  since_line_ = 0;
  return line.text();
}

std::string RunMeter::with_evaluation(const std::string& line, const Evaluation& found) const {
  JsonLine evaluation;
  evaluation.add("val/loss", found.loss);
  const double bytes = trainer_.data().bytes_per_token;
  if (bytes > 0) evaluation.add("val/bpb", found.bits_per_byte(bytes));
  return line.substr(0, line.size() - 1) + "," + evaluation.text().substr(1);
}

}  // namespace norma
