// A folder of files that appears whole or not at all: written beside its place under a temporary
// name, made durable, renamed.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "norma/io/temporary_folder.h"

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
  Replace replace_;
  std::optional<TemporaryFolder> temporary_;
};

}  // namespace norma::io
