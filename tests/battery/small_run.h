// A run of the trainer that takes milliseconds, on any disk, and what it must leave behind.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "norma/io/file_system.h"
#include "norma/train/run.h"
#include "tests/support/memory_disk.h"

namespace norma::battery {

inline const std::string kRun = "run";
inline const std::string kCheckpoints = "run/checkpoints";

/// A GPT of some hundred parameters, five steps, a checkpoint and a line of metrics after each.
Recipe tiny_recipe(const std::vector<std::string>& changes = {});
TokenData tiny_data();

/// What a run told its user.
struct Story {
  Index saved = 0;                    // the last step whose save was not complained about
  std::vector<std::string> troubles;  // sentences while it ran
  std::string end;                    // the sentence it ended with; empty: it got through
};

/// Trains; a failure becomes the end of the story.
Story run(io::FileSystem& disk, const Recipe& recipe, const RunRequest& request = {.out = kRun});
inline Story resume(io::FileSystem& disk, const Recipe& recipe) {
  return run(disk, recipe, {.out = kRun, .resume = true});
}

/// Model and optimizer of a step, as bytes.
std::string weights_of(const test::MemoryDisk& disk, Index step);
/// metrics.jsonl up to a step, less what a clock or the machine decides.
std::string metrics_up_to(const std::string& metrics, Index step);

/// The newest checkpoint is whole and not older than what was acknowledged, every final name is a
/// whole checkpoint, and the metrics hold every line up to it.
testing::AssertionResult keeps_its_promises(io::FileSystem& disk,
                                            const Story& story,
                                            const std::string& reference_metrics);

/// An undisturbed run of a recipe: what every other one must come to.
struct Reference {
  explicit Reference(const Recipe& recipe);
  std::string metrics;
  std::string weights;  // after the last step
};
/// keeps_its_promises, and a resumed run comes to the reference bit for bit.
testing::AssertionResult recovers(test::MemoryDisk& disk,
                                  const Recipe& recipe,
                                  const Story& story,
                                  const Reference& reference);

}  // namespace norma::battery
