// A folder of files that appears whole or not at all: written beside its place under a temporary
// name, made durable, renamed.
#pragma once

#include <functional>
#include <string>

#include "norma/io/file.h"

namespace norma::io {

class WholeFolder {
 public:
  /// What may be done to a folder that is there already.
  struct Replace {
    bool allowed = false;
    /// Only a folder whose entries are all of this kind is replaced: anything else in it is
    /// somebody's, and would be lost.
    std::function<bool(const std::string& name)> ours;
  };
  /// Makes the folders above where they are absent, and PATH.tmp.<pid>.<k>. Throws a RequestError
  /// where PATH is there and may not be replaced.
  WholeFolder(FileSystem& system, std::string path, Replace replace);
  /// Removes what was written, unless it was finished.
  ~WholeFolder();
  WholeFolder(const WholeFolder&) = delete;
  WholeFolder& operator=(const WholeFolder&) = delete;

  const std::string& path() const { return path_; }
  /// Creates a file, lets `produce` write it, and makes it durable.
  void write(const std::string& name, const std::function<void(ByteSink&)>& produce);
  void write(const std::string& name, std::string_view text);
  /// Gives the folder its name. What had it before goes only afterwards.
  void finish();

 private:
  void require_replaceable() const;

  FileSystem& system_;
  std::string path_;
  std::string temporary_;
  Replace replace_;
  bool finished_ = false;
};

}  // namespace norma::io
