// What a run needs to go on: parameters, statistics, optimizer state and counters, in one folder
// that appears whole or not at all (docs/formats/checkpoint.md).
#pragma once

#include <cstdint>
#include <string>

#include "norma/io/checkpoints.h"
#include "norma/train/trainer.h"

namespace norma {

/// Counters that are not part of the trainer.
struct RunState {
  Index step = 0;
  std::uint64_t elapsed_ms = 0;  // of training, over all sittings
};

/// Writes checkpoints/step-N below `run` and returns the folder.
std::string save_checkpoint(io::FileSystem& disk,
                            const std::string& run,
                            Trainer& trainer,
                            const RunState& state);

/// Puts a verified checkpoint into the trainer, which was built from the same recipe. Throws an
/// Error that names what does not fit.
RunState load_checkpoint(io::FileSystem& disk, const std::string& folder, Trainer& trainer);

/// Only parameters and statistics, for whoever does not train.
void load_model(io::FileSystem& disk, const std::string& folder, Gpt& model);

/// A checkpoint of weights alone, as an import makes it: it can be evaluated, sampled from,
/// exported and started from (train.init_from), not resumed.
std::string save_weights(
    io::FileSystem& disk, const std::string& run, const Recipe& recipe, Gpt& model, Index step);

/// Gives a trainer at step 0 the weights of another run's newest checkpoint.
void start_from_run(io::FileSystem& disk, const std::string& run, Trainer& trainer);

}  // namespace norma
