// The choices of a GPU (norma/device/choices.h) in files: one in the folder of the run, so that it
// makes the same ones when it is resumed, and one in the cache folder, so that other runs on this
// machine do, and whoever samples from a run or evaluates it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "norma/io/file_system.h"

namespace norma {

class KeptChoices {
 public:
  struct Files {
    std::string of_run;          // holds all that this process has chosen or taken from elsewhere
    std::string of_machine;      // shared: what it holds when it is written stays
    bool run_is_written = true;  // else the run is another's, and only the machine's is written
  };
  /// Takes what the run's file holds, then what the machine's adds. A file that is absent or cannot
  /// be read holds nothing.
  KeptChoices(io::FileSystem& disk, Files files);
  /// Writes both if something was chosen since.
  void save();

 private:
  io::FileSystem& disk_;
  Files files_;
  std::optional<std::size_t> saved_;  // device::choices_made() then
};

/// gpu_choices.txt of the cache folder.
std::string choices_path();

}  // namespace norma
