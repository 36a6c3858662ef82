// A file as memory to read. The system brings in the pages that are looked at, so a file may be
// larger than memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "norma/io/file.h"

namespace norma::io {

/// The bytes of a regular file, of the size it had when it was opened. Where a file system cannot
/// map they are read into memory.
///
/// Nothing can guard memory against somebody who cuts the file afterwards: touching a page behind
/// its new end is SIGBUS, and the process dies. So a reader checks sizes first, our own writers
/// never change a file in place, and what must survive (checkpoints) is read and not mapped.
class MappedFile {
 public:
  MappedFile(FileSystem& system, const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  Bytes bytes() const { return {at_, size_}; }

 private:
  FileSystem& system_;
  const std::byte* at_ = nullptr;
  std::uint64_t size_ = 0;
  std::vector<std::byte> copy_;  // where it could not be mapped
};

}  // namespace norma::io
