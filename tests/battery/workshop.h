// A folder with a recipe and a text, runs of the real program in it, and what they left behind.
#pragma once

#include <string>
#include <vector>

#include "norma/base/types.h"
#include "norma/io/file_system.h"
#include "tests/battery/child.h"
#include "tests/support/temp_folder.h"

namespace norma::battery {

class Workshop {
 public:
  Workshop();
  std::string path(const std::string& name) const { return folder_ / name; }
  std::vector<std::string> arguments(const std::string& run,
                                     const std::vector<std::string>& more) const;
  Ended finish(const std::string& run, const std::vector<std::string>& more) const {
    return Child(norma_program(), arguments(run, more)).wait();
  }
  /// A text of so many words.
  std::string write_text(const std::string& name, int words) const;

 private:
  test::TempFolder folder_;
};

/// A small file system of its own, where the user may make one.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& options);
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }
  std::string operator/(const std::string& name) const { return folder_ / name; }
  void make_read_only() const;

 private:
  test::TempFolder folder_;
  bool mounted_;
};

std::string metrics_of(const std::string& run);
Index last_step_of_metrics(const std::string& metrics);
void pause_ms(double ms);
bool has(const std::string& text, const std::string& part);

/// Trains in this process as the program does, saying what it says: for a child whose disk lies.
/// Ends the process with the program's code.
[[noreturn]] void train_as_program(io::FileSystem& disk,
                                   const std::string& run,
                                   const std::vector<std::string>& changes);

}  // namespace norma::battery
