// A folder on its way: what is written into it gets its name when all of it is there.
#pragma once

#include <string>

#include "norma/io/file.h"

namespace norma::io {

/// NAME.tmp.<pid>.<k>, removed with the object unless it was given its name. Flat: it holds files.
class TemporaryFolder {
 public:
  /// `name` is the path it is to have; the folder above must exist.
  TemporaryFolder(FileSystem& system, std::string name);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }  // where it lies now
  /// Makes its entries durable, renames it, replacing nothing, and makes the name durable.
  void give_name();

 private:
  FileSystem& system_;
  std::string name_;
  std::string path_;
  bool gone_ = false;
};

}  // namespace norma::io
