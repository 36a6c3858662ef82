// A disk that forgets, for twins of tests of durability.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "tests/support/pass_through_disk.h"

namespace norma::test {

/// Says that it made something durable and did not, for the paths that it was told.
class ForgetfulDisk final : public PassThroughDisk {
 public:
  using Forgets = std::function<bool(const std::string& path)>;
  ForgetfulDisk(io::FileSystem& below, Forgets forgets)
      : PassThroughDisk(below), forgets_(std::move(forgets)) {}
  io::Answer sync(int handle) override {
    return forgets_(path_of(handle)) ? io::Answer{} : PassThroughDisk::sync(handle);
  }

 private:
  Forgets forgets_;
};

}  // namespace norma::test
