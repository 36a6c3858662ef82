// A run that saves checkpoints, in small: what the tests of faults put under stress.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "norma/io/checkpoints.h"
#include "norma/io/file_system.h"

namespace norma::io {

inline const std::string kRun = "run";
inline const std::string kParent = "run/checkpoints";

/// What the run told its user.
struct Story {
  std::vector<std::uint64_t> saved;  // steps that were acknowledged
};

/// Writes the checkpoint of a step. Its bytes follow from the step alone, as in a run that resumes
/// bit for bit.
void save(FileSystem& disk, const std::string& parent, std::uint64_t step, std::size_t bytes = 300);

/// Resumes after the newest whole checkpoint in kParent and saves at steps 100, 200, … up to
/// `last`, keeping two.
void train(FileSystem& disk, std::uint64_t last, Story& story);

/// What must hold of a disk whatever happened: every folder with a final name is a whole
/// checkpoint, and the last two that were acknowledged are among them.
testing::AssertionResult keeps_its_promises(FileSystem& disk, const Story& story);

/// keeps_its_promises, and a run that starts on this disk finishes and clears away the leftovers.
testing::AssertionResult recovers(FileSystem& disk, const Story& story);

}  // namespace norma::io
