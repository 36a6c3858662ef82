#include "norma/io/temporary_folder.h"

#include <cerrno>

#include <unistd.h>

#include "norma/base/text.h"

namespace norma::io {

namespace {

constexpr int kTries = 1000;  // only leftovers that resist removal use them up

}  // namespace

TemporaryFolder::TemporaryFolder(FileSystem& system, std::string name)
    : system_(system), name_(std::move(name)) {
  for (int k = 0;; ++k) {
    path_ = say(name_, ".tmp.", ::getpid(), ".", k);
    const Answer made = system_.make_folder(path_);
    if (made.error == 0) return;
    if (made.error != EINTR && (made.error != EEXIST || k == kTries)) {
      throw FileError("make the folder", path_, made.error);
    }
  }
}

TemporaryFolder::~TemporaryFolder() {
  if (gone_) return;
  try {
    remove_flat_folder(system_, path_);
  } catch (const Error&) {
    // The reason that it was given up is already on its way to the user.
  }
}

void TemporaryFolder::give_name() {
  sync_folder(system_, path_);
  rename(system_, path_, name_);
  gone_ = true;
  sync_folder(system_, parent_of(name_));
}

}  // namespace norma::io
