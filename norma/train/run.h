// A run from its first step to its last: steps, evaluations, metrics, checkpoints, the end.
#pragma once

#include <functional>
#include <string>

#include "norma/io/file_system.h"
#include "norma/train/run_folder.h"
#include "norma/train/trainer.h"

namespace norma {

struct RunRequest {
  std::string out;
  bool resume = false;
  bool force = false;
  double peak_gflops = 0;  // of this machine, for the share of it; 0: not known
};

/// What an onlooker may want to show; called after every step.
struct RunProgress {
  Index step = 0;
  Index steps = 0;
  double loss = 0;      // smoothed over the last steps
  double val_loss = 0;  // of the last evaluation; 0: none yet
  double lr = 0;
  double tokens_per_s = 0;
  double share_of_peak = 0;
  double eta_s = 0;
  bool logged = false;  // a line of metrics was written at this step
  std::string trouble;  // a sentence where the disk did not take something at this step
};
using Onlooker = std::function<void(const RunProgress&)>;

enum class RunEnd : std::uint8_t { done, was_done, stopped };

struct RunResult {
  RunEnd end = RunEnd::done;
  Index steps = 0;
  double val_loss = 0;
  double train_loss = 0;
  double seconds = 0;                // of this sitting
  double step_seconds = 0;           // median
  std::size_t bytes = 0;             // most memory the process held; on a GPU, what is taken of it
  std::vector<std::string> remarks;  // sentences: checkpoints that were skipped, warnings
};

/// Trains as the recipe says into the folder. Throws DivergedError (after marking the run FAILED)
/// when the loss stops being a number. A stop signal saves a checkpoint and ends as `stopped`; a
/// request to save (norma/base/stop.h) saves one and goes on. A save that the disk refuses is told
/// to the onlooker, and the next one tries again; only the last one of a run throws.
RunResult train_run(const Recipe& recipe,
                    TokenData data,
                    const RunRequest& request,
                    const Onlooker& onlooker,
                    io::FileSystem& disk = io::real_file_system());

/// Most memory this process has held so far.
std::size_t peak_process_bytes();

}  // namespace norma
