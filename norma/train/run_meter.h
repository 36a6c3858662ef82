// What a run measures while it goes: speed, smoothed loss, lines of metrics.
#pragma once

#include <string>
#include <vector>

#include "norma/train/trainer.h"

namespace norma {

class RunMeter {
 public:
  /// `peak_gflops` of this machine; 0: not known.
  RunMeter(Trainer& trainer, double peak_gflops) : trainer_(trainer), peak_gflops_(peak_gflops) {}

  /// A step was done in so many seconds.
  void note(double seconds, const StepReport& report);
  /// The line of metrics of a step; shares since the last line begin anew.
  std::string line(const StepReport& report, double elapsed_s);
  /// Whether a line tells something of the weights.
  bool looks_at_weights() const;
  /// The same line with an evaluation at its end.
  std::string with_evaluation(const std::string& line, const Evaluation& found) const;

  double step_seconds() const { return step_s_; }  // median of the last steps
  double smooth_loss() const { return smooth_loss_; }
  double tokens_per_s() const;
  double share_of_peak() const;

 private:
  Trainer& trainer_;
  double peak_gflops_;
  std::vector<double> recent_s_;  // seconds of the last steps
  std::size_t oldest_ = 0;        // which of them goes next
  double step_s_ = 0;             // their median
  double smooth_loss_ = 0;
  Index clipped_ = 0;
  Index since_line_ = 0;
};

}  // namespace norma
