#include "norma/io/hashed_file.h"

#include <algorithm>

namespace norma::io {

namespace {

constexpr std::size_t kPiece = 1 << 20;  // hashed while still in cache, then written

}  // namespace

HashedFile::HashedFile(FileSystem& system, std::string path)
    : file_(system, std::move(path), OpenAs::create_new) {}

void HashedFile::write(Bytes bytes) {
  while (!bytes.empty()) {
    const Bytes piece = bytes.first(std::min(bytes.size(), kPiece));
    hasher_.add(piece);
    file_.write(piece);
    count_ += piece.size();
    bytes = bytes.subspan(piece.size());
  }
}

ManifestFile HashedFile::finish() {
  file_.sync();
  file_.close();
  return {.bytes = count_, .digest = hasher_.digest().text()};
}

}  // namespace norma::io
