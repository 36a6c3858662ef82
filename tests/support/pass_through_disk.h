// A file system that hands every call on to another one; tests override the calls they want to
// spoil.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "norma/io/file_system.h"

namespace norma::test {

class PassThroughDisk : public io::FileSystem {
 public:
  explicit PassThroughDisk(io::FileSystem& below) : below_(below) {}

  io::Answer open(const std::string& path, io::OpenAs how) override {
    const io::Answer got = below_.open(path, how);
    if (got.error == 0) paths_[static_cast<int>(got.value)] = path;
    return got;
  }
  io::Answer close(int handle) override { return below_.close(handle); }
  io::Answer write(int handle, io::Bytes bytes) override { return below_.write(handle, bytes); }
  io::Answer read_at(int handle, std::uint64_t offset, std::span<std::byte> into) override {
    return below_.read_at(handle, offset, into);
  }
  io::Answer read_next(int handle, std::span<std::byte> into) override {
    return below_.read_next(handle, into);
  }
  io::Answer truncate(int handle, std::uint64_t bytes) override {
    return below_.truncate(handle, bytes);
  }
  io::Answer sync(int handle) override { return below_.sync(handle); }
  io::Answer lock(int handle) override { return below_.lock(handle); }
  io::Answer info(int handle, io::FileInfo& info) override { return below_.info(handle, info); }
  io::Answer rename(const std::string& from, const std::string& to) override {
    return below_.rename(from, to);
  }
  io::Answer replace(const std::string& from, const std::string& to) override {
    return below_.replace(from, to);
  }
  io::Answer remove_file(const std::string& path) override { return below_.remove_file(path); }
  io::Answer make_folder(const std::string& path) override { return below_.make_folder(path); }
  io::Answer remove_folder(const std::string& path) override { return below_.remove_folder(path); }
  io::Answer list(const std::string& folder, std::vector<std::string>& names) override {
    return below_.list(folder, names);
  }
  io::Answer free_bytes(const std::string& folder) override { return below_.free_bytes(folder); }

 protected:
  io::FileSystem& below() { return below_; }
  const std::string& path_of(int handle) const { return paths_.at(handle); }

 private:
  io::FileSystem& below_;
  std::map<int, std::string> paths_;
};

}  // namespace norma::test
