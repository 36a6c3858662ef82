// The door to the disk. Every call that touches a file goes through a FileSystem, one virtual per
// system call, so that tests can let the n-th call fail, tear a write or cut the power.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace norma::io {

using Bytes = std::span<const std::byte>;

enum class OpenAs : std::uint8_t {
  read,        // an existing file of any kind; never waits, not even for a pipe
  stream,      // the same, and waits for a pipe's writer: what is read once, in order
  look,        // to ask for kind and size only; who writes into a pipe notices nothing
  create_new,  // for writing; the file must not exist
  shared,      // for reading and writing, made when absent: lock files
  append,      // for reading and writing at the end, made when absent: files of lines
  folder,      // to make its entries durable; a link to a folder is refused
};

struct FileInfo {
  enum class Kind : std::uint8_t { file, folder, other };
  Kind kind = Kind::other;
  std::uint64_t bytes = 0;
};

/// What a call answered: a value, or the error number of the system.
struct Answer {
  std::int64_t value = 0;
  int error = 0;
};

/// Raw calls. They may be interrupted and may write or read less than they were asked to;
/// norma/io/file.h turns them into whole actions and their errors into sentences.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual Answer open(const std::string& path, OpenAs how) = 0;  // value: a handle
  virtual Answer close(int handle) = 0;
  virtual Answer write(int handle,
                       Bytes bytes) = 0;  // at the end of what was written; value: count
  virtual Answer read_at(int handle, std::uint64_t offset, std::span<std::byte> into) = 0;  // count
  /// Where the last one ended, for pipes as well; waits. Handle 0 is standard input.
  virtual Answer read_next(int handle, std::span<std::byte> into) = 0;
  virtual Answer truncate(int handle, std::uint64_t bytes) = 0;
  virtual Answer sync(int handle) = 0;  // a file's bytes, or a folder's entries
  virtual Answer lock(int handle) = 0;  // exclusive; EWOULDBLOCK when held elsewhere
  virtual Answer info(int handle, FileInfo& info) = 0;  // never by path: the file may change
  /// The first `bytes` of a file as memory to read, good after the handle is closed and until
  /// unmap(). ENOTSUP: it has to be read instead.
  virtual Answer map(int handle, std::uint64_t bytes, const std::byte*& at);
  virtual void unmap(const std::byte* at, std::uint64_t bytes);

  virtual Answer rename(const std::string& from,
                        const std::string& to) = 0;  // EEXIST, no replacing
  virtual Answer replace(const std::string& from,
                         const std::string& to) = 0;        // a file that is there
  virtual Answer remove_file(const std::string& path) = 0;  // a link, not its target
  virtual Answer make_folder(const std::string& path) = 0;
  virtual Answer remove_folder(const std::string& path) = 0;
  virtual Answer list(const std::string& folder, std::vector<std::string>& names) = 0;
  virtual Answer free_bytes(
      const std::string& folder) = 0;  // value: what this user may still write
};

/// The disk. Locks are flock(2): the kernel gives them back when the process is gone.
FileSystem& real_file_system();

/// A file that grows past the limit of the shell (ulimit -f) kills the process unless this was
/// called; afterwards the write fails with EFBIG like any other error. For the start of programs.
void turn_file_size_signals_into_errors();

}  // namespace norma::io
