// A new file whose bytes are counted and digested on their way to the disk.
#pragma once

#include <cstdint>
#include <string>

#include "norma/io/digest.h"
#include "norma/io/file.h"
#include "norma/io/manifest.h"

namespace norma::io {

class HashedFile final : public ByteSink {
 public:
  HashedFile(FileSystem& system, std::string path);

  void write(Bytes bytes) override;
  /// Makes it durable and closes it; its size and digest.
  ManifestFile finish();

 private:
  File file_;
  Hasher hasher_;
  std::uint64_t count_ = 0;
};

}  // namespace norma::io
