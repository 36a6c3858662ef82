// Whole actions on files: a write writes everything, a failure is a sentence with the path and what
// the system said.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "norma/base/error.h"
#include "norma/io/file_system.h"

namespace norma::io {

/// "cannot write runs/a/x: No space left on device (ENOSPC). Free some space …"
class FileError : public Error {
 public:
  /// doing: "write", "open for reading", …
  FileError(std::string_view doing, std::string_view path, int code);
  int code() const { return code_; }  // the system's error number

 private:
  int code_;
};

/// Where a producer of bytes puts them, in order.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual void write(Bytes bytes) = 0;
};

/// Puts text into a sink.
void write_text(ByteSink& sink, std::string_view text);

/// An open file. The destructor closes and says nothing; who writes calls sync() and close(), and
/// throws the file away when either fails. A failed sync has lost data, so it is never tried again.
class File final : public ByteSink {
 public:
  File(FileSystem& system, std::string path, OpenAs how);
  ~File() override;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }
  FileInfo info() const;
  /// Fills all of `into`, or throws: "… ended at byte 120, where 8 more were expected."
  void read(std::uint64_t offset, std::span<std::byte> into) const;
  /// All of a regular file of at most `limit` bytes.
  std::string text(std::uint64_t limit) const;
  /// Its first `bytes` as memory (norma/io/mapped_file.h); null where they have to be read.
  const std::byte* map(std::uint64_t bytes) const;

  void write(Bytes bytes) override;
  void truncate(std::uint64_t bytes);
  void sync();
  void close();
  bool try_lock();  // false: somebody else holds it

 private:
  FileSystem& system_;
  std::string path_;
  int handle_ = -1;
};

std::string join(std::string_view folder, std::string_view name);  // folder/name
std::string parent_of(std::string_view path);                      // "." when there is none
std::string last_part(std::string_view path);                      // what follows the last slash

/// A name that stays in its folder: 1 to 255 bytes, no slash, no NUL, no leading dot.
bool is_plain_file_name(std::string_view name);

/// Whether something of that name is there; throws when the disk does not tell.
bool is_there(FileSystem& system, const std::string& path);
/// Removes a file; false when there was none. Durable only after sync_folder.
bool remove_file(FileSystem& system, const std::string& path);
/// Makes a folder and those above it that are absent, each durable.
void make_folders(FileSystem& system, const std::string& path);
/// Makes one folder and makes its entry durable; false when it was there already.
bool make_folder(FileSystem& system, const std::string& path);
/// After this, entries made, renamed or removed in the folder survive a loss of power.
void sync_folder(FileSystem& system, const std::string& path);
/// In name order.
std::vector<std::string> list_folder(FileSystem& system, const std::string& path);
void rename(FileSystem& system, const std::string& from, const std::string& to);
/// A file appears or changes whole or not at all: written beside its place, made durable, renamed.
void replace_file(FileSystem& system, const std::string& path, std::string_view contents);
/// Whether a name is that of a file beside its place, left by a replace_file() that was killed.
bool left_by_replace_file(std::string_view name);
/// Removes the files of a folder and the folder. It enters no folder inside: that would not be
/// ours. Where a file or a link has that name, it alone is removed.
void remove_flat_folder(FileSystem& system, const std::string& path);

}  // namespace norma::io
