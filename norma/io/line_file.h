// A file of lines that only grows: metrics, samples, the log.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "norma/io/file.h"

namespace norma::io {

/// A line goes out in one write, so a death at any instant leaves at most the last line torn, and
/// opening the file again cuts that one off. A line that the disk does not take is kept and goes
/// out before the next one, so that a file never has a gap; so do all lines since the last sync
/// when a sync fails, for nobody knows then which of them the disk still has.
class LineFile {
 public:
  /// Touches nothing yet. The first use opens the file, makes it where it is absent, and cuts off a
  /// torn last line.
  LineFile(FileSystem& system, std::string path);

  /// Cuts the file off at the first line that is not wanted.
  void keep_while(const std::function<bool(std::string_view line)>& wanted);
  /// Appends a line, given without its end. Throws a FileError where the disk does not take it.
  void add(std::string_view line);
  /// Writes what is still waiting and makes all lines durable; nothing for a file that was never
  /// used. The file's entry in its folder is the caller's (sync_folder).
  void sync();

 private:
  File& open();
  void flush();

  FileSystem& system_;
  std::string path_;
  std::optional<File> file_;
  std::uint64_t durable_ = 0;  // bytes that are known to be durable
  std::string recent_;         // the lines after those, in the file or waiting
  std::size_t written_ = 0;    // how much of `recent_` is in the file
  bool torn_ = false;          // the file may hold something else after them
};

}  // namespace norma::io
