// One process at a time writes into a run folder.
#pragma once

#include <string>

#include "norma/io/file.h"

namespace norma::io {

/// Holds FOLDER/.lock while it lives. The kernel gives the lock back when the process is gone, by
/// whatever death, so there are no stale locks. The file stays: removing it would let a third
/// process lock a new file while a second one waits for the old. A child made by fork() without
/// exec() keeps the lock alive too.
class RunLock {
 public:
  /// Throws an Error that names the holder: "runs/a is in use by process 4711 on host b since …".
  RunLock(FileSystem& system, std::string folder);
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
  File file_;
};

}  // namespace norma::io
