#include "norma/io/mapped_file.h"

#include "norma/base/text.h"

namespace norma::io {

MappedFile::MappedFile(FileSystem& system, const std::string& path) : system_(system) {
  const File file(system, path, OpenAs::read);
  const FileInfo found = file.info();
  if (found.kind != FileInfo::Kind::file) throw Error(say(path, " is not a regular file."));
  size_ = found.bytes;
  if (size_ == 0) return;  // nothing can be mapped
  at_ = file.map(size_);
  if (at_ != nullptr) return;
  copy_.resize(size_);
  file.read(0, copy_);
  at_ = copy_.data();
}

MappedFile::~MappedFile() {
  if (at_ != nullptr && copy_.empty()) system_.unmap(at_, size_);
}

}  // namespace norma::io
