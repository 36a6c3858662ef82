// How a run shows itself: one line that is rewritten on a terminal, plain lines in a pipe.
#pragma once

#include "norma/base/clock.h"
#include "norma/train/run.h"

namespace norma::app {

class ProgressDisplay {
 public:
  ProgressDisplay();
  void show(const RunProgress& progress);
  /// Ends the rewritten line, so that what follows stands below it.
  void finish();

 private:
  bool terminal_;
  bool open_ = false;
  Stopwatch since_;
  bool shown_ = false;
};

/// The same for work that is no training: a share from 0 to 1 and a text. In a pipe, a line every
/// few seconds.
class StatusLine {
 public:
  StatusLine();
  void show(double share, const std::string& text);
  void finish();

 private:
  bool terminal_;
  bool open_ = false;
  Stopwatch since_;
};

/// 1:05, 2:03:04
std::string clock_text(double seconds);

}  // namespace norma::app
