// A disk in memory that can lose power. It keeps, for every file and folder, what was made durable
// and what has changed since; a loss of power keeps the former and any part of the latter.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "norma/io/file_system.h"

namespace norma::test {

class MemoryDisk final : public io::FileSystem {
 public:
  MemoryDisk();

  long calls() const { return calls_; }
  /// After that many calls in all, every call answers EIO and changes nothing.
  void cut_power_after(long calls) { power_until_ = calls; }
  /// One of the disks that may be found when the power comes back: writes that were not made
  /// durable are there, absent, cut short or zeros; changes of folders that were not are there or
  /// not, in any combination.
  MemoryDisk after_power_loss(std::mt19937_64& random) const;

  /// A durable file, made or replaced, for tests that tamper.
  void put(const std::string& path, std::string_view bytes);
  std::string bytes_of(const std::string& path) const;
  void set_free_bytes(std::int64_t bytes) { free_bytes_ = bytes; }

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
  using Entries = std::map<std::string, int>;  // name -> node
  struct Write {
    std::uint64_t offset;
    std::string bytes;
    bool cuts = false;  // the file ends at `offset`
  };
  struct Change {  // removes `from`, adds `to`; either may be empty
    std::string from;
    std::string to;
    int node;
  };
  struct Node {
    bool folder = false;
    std::string data;
    std::string durable_data;
    std::vector<Write> writes;  // since the last sync
    Entries entries;
    Entries durable_entries;
    std::vector<Change> changes;  // since the last sync
    int lock_holder = -1;
  };
  struct Handle {
    int node;
    std::uint64_t position = 0;
    bool at_end = false;  // every write goes to the end
  };

  bool dead();
  int find(std::string_view path) const;                             // a node, or -1
  std::pair<int, std::string> place(const std::string& path) const;  // folder (or -1) and name
  int add(const std::string& path, bool folder);
  void change(int folder, const Change& change);
  io::Answer remove(const std::string& path, bool folder);
  static void apply(const Write& write, std::string& data);
  static void apply(const Change& change, Entries& entries);

  std::vector<Node> nodes_;
  std::map<int, Handle> handles_;
  int next_handle_ = 3;
  long calls_ = 0;
  long power_until_ = -1;
  std::int64_t free_bytes_ = std::int64_t{1} << 40;
};

}  // namespace norma::test
