#include "tests/support/faulty_disk.h"

#include <algorithm>

namespace norma::test {

bool FaultyDisk::strikes() {
  ++calls_;
  const bool now =
      fault_.at > 0 && (calls_ == fault_.at || (fault_.for_ever && calls_ > fault_.at));
  struck_ = struck_ || now;
  return now;
}

// A close that fails has closed all the same.
io::Answer FaultyDisk::close(int handle) {
  const bool fails = strikes();
  const io::Answer got = PassThroughDisk::close(handle);
  return fails ? failure() : got;
}

io::Answer FaultyDisk::write(int handle, io::Bytes bytes) {
  if (strikes()) return failure();
  return PassThroughDisk::write(handle, bytes.first(std::min(bytes.size(), fault_.bite)));
}

io::Answer FaultyDisk::read_at(int handle, std::uint64_t offset, std::span<std::byte> into) {
  if (strikes()) return failure();
  return PassThroughDisk::read_at(handle, offset, into.first(std::min(into.size(), fault_.bite)));
}

io::Answer FaultyDisk::read_next(int handle, std::span<std::byte> into) {
  if (strikes()) return failure();
  return PassThroughDisk::read_next(handle, into.first(std::min(into.size(), fault_.bite)));
}

io::Answer FaultyDisk::open(const std::string& path, io::OpenAs how) {
  return strikes() ? failure() : PassThroughDisk::open(path, how);
}

io::Answer FaultyDisk::truncate(int handle, std::uint64_t bytes) {
  return strikes() ? failure() : PassThroughDisk::truncate(handle, bytes);
}

io::Answer FaultyDisk::sync(int handle) {
  return strikes() ? failure() : PassThroughDisk::sync(handle);
}

io::Answer FaultyDisk::lock(int handle) {
  return strikes() ? failure() : PassThroughDisk::lock(handle);
}

io::Answer FaultyDisk::info(int handle, io::FileInfo& info) {
  return strikes() ? failure() : PassThroughDisk::info(handle, info);
}

io::Answer FaultyDisk::rename(const std::string& from, const std::string& to) {
  return strikes() ? failure() : PassThroughDisk::rename(from, to);
}

io::Answer FaultyDisk::replace(const std::string& from, const std::string& to) {
  return strikes() ? failure() : PassThroughDisk::replace(from, to);
}

io::Answer FaultyDisk::remove_file(const std::string& path) {
  return strikes() ? failure() : PassThroughDisk::remove_file(path);
}

io::Answer FaultyDisk::make_folder(const std::string& path) {
  return strikes() ? failure() : PassThroughDisk::make_folder(path);
}

io::Answer FaultyDisk::remove_folder(const std::string& path) {
  return strikes() ? failure() : PassThroughDisk::remove_folder(path);
}

io::Answer FaultyDisk::list(const std::string& folder, std::vector<std::string>& names) {
  return strikes() ? failure() : PassThroughDisk::list(folder, names);
}

io::Answer FaultyDisk::free_bytes(const std::string& folder) {
  return strikes() ? failure() : PassThroughDisk::free_bytes(folder);
}

}  // namespace norma::test
