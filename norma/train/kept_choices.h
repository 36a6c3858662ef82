// The choices of a GPU (norma/device/choices.h) in a file of the cache folder, so that every run on
// a machine makes the same ones.
#pragma once

#include <string>

#include "norma/io/file_system.h"

namespace norma {

class KeptChoices {
 public:
  /// Takes what the file holds; one that is absent or cannot be read holds nothing.
  KeptChoices(io::FileSystem& disk, std::string path);
  /// Writes the file if something was chosen since.
  void save();

 private:
  io::FileSystem& disk_;
  std::string path_;
  std::string saved_;
};

/// gpu_choices.txt of the cache folder.
std::string choices_path();

}  // namespace norma
