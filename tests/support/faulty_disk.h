// A disk whose n-th call fails, once or from then on, and which may write and read in small bites.
#pragma once

#include <cstddef>
#include <limits>

#include "tests/support/pass_through_disk.h"

namespace norma::test {

struct Fault {
  long at = 0;  // the call that fails, counted from 1; 0: none
  int error = 0;
  bool for_ever = false;
  std::size_t bite = std::numeric_limits<std::size_t>::max();  // most bytes per write or read
};

class FaultyDisk final : public PassThroughDisk {
 public:
  FaultyDisk(io::FileSystem& below, Fault fault) : PassThroughDisk(below), fault_(fault) {}

  long calls() const { return calls_; }
  bool struck() const { return struck_; }

  io::Answer open(const std::string& path, io::OpenAs how) override;
  io::Answer close(int handle) override;
  io::Answer write(int handle, io::Bytes bytes) override;
  io::Answer read_at(int handle, std::uint64_t offset, std::span<std::byte> into) override;
  io::Answer read_next(int handle, std::span<std::byte> into) override;
  io::Answer truncate(int handle, std::uint64_t bytes) override;
  io::Answer sync(int handle) override;
  io::Answer lock(int handle) override;
  io::Answer info(int handle, io::FileInfo& info) override;
  io::Answer rename(const std::string& from, const std::string& to) override;
  io::Answer replace(const std::string& from, const std::string& to) override;
  io::Answer remove_file(const std::string& path) override;
  io::Answer make_folder(const std::string& path) override;
  io::Answer remove_folder(const std::string& path) override;
  io::Answer list(const std::string& folder, std::vector<std::string>& names) override;
  io::Answer free_bytes(const std::string& folder) override;

 private:
  bool strikes();
  io::Answer failure() const { return {.value = -1, .error = fault_.error}; }

  Fault fault_;
  long calls_ = 0;
  bool struck_ = false;
};

}  // namespace norma::test
