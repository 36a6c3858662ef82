// What a run needs to go on: parameters, statistics, optimizer state and counters, in one folder
// that appears whole or not at all (docs/formats/checkpoint.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "norma/io/checkpoints.h"
#include "norma/train/trainer.h"

namespace norma {

/// What is still to be done for a step whose evaluation or samples a stop signal broke off. Both
/// depend on the weights alone, so a resumed run makes up for them first.
struct OpenWork {
  std::string metrics = {};  // the step's line of metrics, which waits for the evaluation; or empty
  bool samples = false;
};

/// Counters that are not part of the trainer.
struct RunState {
  Index step = 0;
  std::uint64_t elapsed_ms = 0;  // of training, over all sittings
  OpenWork open = {};
  std::string data = {};  // the digest of the data; empty: a checkpoint without one
};

/// Writes checkpoints/step-N below `run` and returns the folder. Throws DivergedError, before
/// anything is written, where a value is not finite.
std::string save_checkpoint(io::FileSystem& disk,
                            const std::string& run,
                            Trainer& trainer,
                            const RunState& state);

/// state.json. Throws an Error that begins with `path` for any text that save_checkpoint did not
/// write.
RunState parse_state(const std::string& path, std::string_view text);

/// Puts a verified checkpoint into the trainer, which was built from the same recipe. Throws an
/// Error that names what does not fit, and a RequestError when the data are not those of the
/// checkpoint: the run would go on with other tokens than it was to see.
RunState load_checkpoint(io::FileSystem& disk, const std::string& folder, Trainer& trainer);

/// Only parameters and statistics, into a model whose parameters are allocated.
void load_model(io::FileSystem& disk, const std::string& folder, Gpt& model);

/// A checkpoint of weights alone, as an import makes it: it can be evaluated, sampled from,
/// exported and started from (train.init_from), not resumed.
std::string save_weights(
    io::FileSystem& disk, const std::string& run, const Recipe& recipe, Gpt& model, Index step);

/// Gives a trainer at step 0 the weights of another run's newest checkpoint.
void start_from_run(io::FileSystem& disk, const std::string& run, Trainer& trainer);

}  // namespace norma
