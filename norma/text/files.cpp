#include "norma/text/files.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/text/words.h"

namespace norma::text {

namespace {

[[noreturn]] void refuse(std::string_view doing, std::string_view path, int code) {
  throw Error(say("cannot ", doing, " ", path, ": ", std::strerror(code), "."));
}

/// An open file, or standard input, which stays open.
class Handle {
 public:
  Handle(const std::string& path, std::string_view doing, int flags)
      : path_(path), doing_(doing), owned_(path != "-") {
    handle_ = owned_ ? ::open(path.c_str(), flags | O_CLOEXEC, 0666) : STDIN_FILENO;
    if (handle_ < 0) refuse(doing, path, errno);
  }
  ~Handle() {
    if (owned_ && handle_ >= 0) ::close(handle_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  /// Appends up to `bytes` to `into`; false when the file has ended.
  bool read_some(std::size_t bytes, std::string& into) {
    const std::size_t before = into.size();
    into.resize(before + bytes);
    ssize_t got = 0;
    do {
      got = ::read(handle_, into.data() + before, bytes);
    } while (got < 0 && errno == EINTR);
    into.resize(before + static_cast<std::size_t>(got > 0 ? got : 0));
    if (got < 0) refuse(doing_, path_, errno);
    return got > 0;
  }

  void write_all(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t put = ::write(handle_, bytes.data(), bytes.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) refuse(doing_, path_, errno);
      bytes.remove_prefix(static_cast<std::size_t>(put));
    }
  }

  void finish() {
    if (::fsync(handle_) != 0) refuse(doing_, path_, errno);
    const int handle = handle_;
    handle_ = -1;
    if (::close(handle) != 0) refuse(doing_, path_, errno);
  }

  int number() const { return handle_; }

 private:
  std::string path_;
  std::string doing_;
  bool owned_;
  int handle_ = -1;
};

/// The folder of a path, for making a new name in it durable.
std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

std::string read_whole(const std::string& path, std::size_t limit) {
  Handle file(path, "read", O_RDONLY | O_NONBLOCK);  // a pipe must not make us wait
  struct stat info {};
  if (::fstat(file.number(), &info) != 0) refuse("read", path, errno);
  if (!S_ISREG(info.st_mode)) throw Error(say("cannot read ", path, ": it is no regular file."));
  if (static_cast<std::uint64_t>(info.st_size) > limit) {
    throw Error(say("cannot read ", path, ": it has ", info.st_size, " bytes, over ", limit, "."));
  }
  std::string contents;
  while (contents.size() <= limit && file.read_some(1 << 20, contents)) {
  }
  return contents;
}

void for_each_block(const std::string& path,
                    std::size_t block_bytes,
                    const std::function<void(std::string_view)>& take) {
  Handle file(path, "read", O_RDONLY);
  std::string block;
  std::size_t wanted = block_bytes;
  bool more = true;
  while (more) {
    while (more && block.size() < wanted) more = file.read_some(wanted - block.size(), block);
    const std::size_t cut = more ? last_cut(block) : block.size();
    if (cut == 0 && more) {  // no place to cut yet: twice as much, so that looking stays linear
      wanted *= 2;
      continue;
    }
    take(std::string_view(block).substr(0, cut));
    block.erase(0, cut);
    wanted = block_bytes;
  }
}

void write_whole(const std::string& path, std::string_view contents) {
  const std::string temporary = say(path, ".tmp.", ::getpid());
  try {
    Handle file(temporary, "write", O_WRONLY | O_CREAT | O_EXCL);
    file.write_all(contents);
    file.finish();
    if (::rename(temporary.c_str(), path.c_str()) != 0) refuse("write", path, errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  Handle folder(folder_of(path), "write into", O_RDONLY | O_DIRECTORY);
  if (::fsync(folder.number()) != 0) refuse("write into", folder_of(path), errno);
}

}  // namespace norma::text
