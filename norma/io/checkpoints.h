// The folder that holds the checkpoints of a run: finding the newest whole one, keeping some,
// clearing away what dead writers left.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "norma/io/commit.h"
#include "norma/io/run_lock.h"

namespace norma::io {

/// Before the first step: makes `parent` if it is absent, removes leftovers, and finds out now
/// whether checkpoints can be written: a probe file, and `bytes_wanted` of free space, which should
/// be one more than are kept times the size of one. `parent` must be spelled as a folder inside
/// lock.folder(), or be that folder.
void prepare_checkpoints(FileSystem& system,
                         const std::string& parent,
                         const RunLock& lock,
                         std::uint64_t bytes_wanted);

/// Removes temporary folders of writers and folders that were being deleted. Who holds the lock of
/// the run knows that their owners are dead; do not call it while this process has a Commit open.
/// Returns their names.
std::vector<std::string> remove_leftovers(FileSystem& system,
                                          const std::string& parent,
                                          const RunLock& lock);

struct WholeCheckpoint {
  std::uint64_t step = 0;
  std::string folder;
  Manifest manifest;
};

struct SkippedCheckpoint {
  std::string folder;
  std::string why;  // a sentence
};

struct NewestCheckpoint {
  std::optional<WholeCheckpoint> whole;    // nothing: start at step 0
  std::vector<SkippedCheckpoint> skipped;  // newer ones that did not verify, newest first
};

/// Reads checkpoints from the newest on until one verifies byte by byte. A `parent` that does not
/// exist has none.
NewestCheckpoint newest_whole(FileSystem& system, const std::string& parent);

struct KeepRule {
  std::uint64_t last = 2;   // at least 2: behind a damaged one there must be a sound one
  std::uint64_t every = 0;  // and every step that is a multiple of this; 0: none
  std::vector<std::uint64_t> also = {};  // and these: the best one, for example
};

/// Deletes what the rule does not keep, and returns the steps deleted. Only checkpoints with a
/// sound manifest and files of the right sizes count as `last`, and only such are deleted; damaged
/// ones stay for a person to look at. Called after a finish(), so what replaces them is durable.
std::vector<std::uint64_t> retain(FileSystem& system,
                                  const std::string& parent,
                                  const KeepRule& rule);

}  // namespace norma::io
