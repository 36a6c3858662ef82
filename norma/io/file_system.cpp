#include "norma/io/file_system.h"

#include <cerrno>
#include <csignal>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace norma::io {

namespace {

Answer answer(std::int64_t result) {
  return result < 0 ? Answer{.value = -1, .error = errno} : Answer{.value = result};
}

int flags_of(OpenAs how) {
  switch (how) {
    case OpenAs::read:
      return O_RDONLY | O_NONBLOCK;  // else opening a pipe waits for its writer
    case OpenAs::stream:
      return O_RDONLY;
    case OpenAs::look:
      return O_PATH;
    case OpenAs::create_new:
      return O_WRONLY | O_CREAT | O_EXCL;
    case OpenAs::shared:
      return O_RDWR | O_CREAT | O_NOFOLLOW;
    case OpenAs::append:
      return O_RDWR | O_CREAT | O_NOFOLLOW | O_APPEND;
    case OpenAs::folder:
      return O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
  }
  return O_RDONLY;
}

class Disk final : public FileSystem {
 public:
  Answer open(const std::string& path, OpenAs how) override {
    constexpr int kMode = 0666;  // less what the user's umask takes away
    return answer(::open(path.c_str(), flags_of(how) | O_CLOEXEC, kMode));
  }
  Answer close(int handle) override { return answer(::close(handle)); }
  Answer write(int handle, Bytes bytes) override {
    return answer(::write(handle, bytes.data(), bytes.size()));
  }
  Answer read_at(int handle, std::uint64_t offset, std::span<std::byte> into) override {
    return answer(::pread(handle, into.data(), into.size(), static_cast<off_t>(offset)));
  }
  Answer read_next(int handle, std::span<std::byte> into) override {
    return answer(::read(handle, into.data(), into.size()));
  }
  Answer truncate(int handle, std::uint64_t bytes) override {
    return answer(::ftruncate(handle, static_cast<off_t>(bytes)));
  }
  Answer sync(int handle) override { return answer(::fsync(handle)); }
  Answer lock(int handle) override { return answer(::flock(handle, LOCK_EX | LOCK_NB)); }

  Answer info(int handle, FileInfo& info) override {
    struct stat status {};
    const Answer got = answer(::fstat(handle, &status));
    info.kind = S_ISREG(status.st_mode)   ? FileInfo::Kind::file
                : S_ISDIR(status.st_mode) ? FileInfo::Kind::folder
                                          : FileInfo::Kind::other;
    info.bytes = static_cast<std::uint64_t>(status.st_size);
    return got;
  }

  Answer map(int handle, std::uint64_t bytes, const std::byte*& at) override {
    void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, handle, 0);
    if (memory == MAP_FAILED) return {.value = -1, .error = errno == ENODEV ? ENOTSUP : errno};
    at = static_cast<const std::byte*>(memory);
    return {};
  }
  void unmap(const std::byte* at, std::uint64_t bytes) override {
    ::munmap(const_cast<std::byte*>(at), bytes);
  }

  Answer rename(const std::string& from, const std::string& to) override {
    const Answer got =
        answer(::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE));
    if (got.error != EINVAL && got.error != ENOSYS) return got;
    // A file system without the flag. Looking first leaves a gap, which the run's lock closes.
    struct stat status {};
    if (::lstat(to.c_str(), &status) == 0) return {.value = -1, .error = EEXIST};
    return answer(::rename(from.c_str(), to.c_str()));
  }

  Answer replace(const std::string& from, const std::string& to) override {
    return answer(::rename(from.c_str(), to.c_str()));
  }

  Answer remove_file(const std::string& path) override { return answer(::unlink(path.c_str())); }
  Answer make_folder(const std::string& path) override {
    constexpr mode_t kMode = 0777;  // less what the user's umask takes away
    return answer(::mkdir(path.c_str(), kMode));
  }
  Answer remove_folder(const std::string& path) override { return answer(::rmdir(path.c_str())); }

  Answer list(const std::string& folder, std::vector<std::string>& names) override {
    names.clear();
    const Answer opened = open(folder, OpenAs::folder);
    if (opened.error != 0) return opened;
    DIR* stream = ::fdopendir(static_cast<int>(opened.value));
    if (stream == nullptr) {
      const Answer failed = answer(-1);
      ::close(static_cast<int>(opened.value));
      return failed;
    }
    errno = 0;  // the end and an error look the same but for errno
    while (const dirent* entry = ::readdir(stream)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
      errno = 0;
    }
    const int error = errno;
    ::closedir(stream);
    return {.value = error == 0 ? 0 : -1, .error = error};
  }

  Answer free_bytes(const std::string& folder) override {
    struct statvfs status {};
    const Answer got = answer(::statvfs(folder.c_str(), &status));
    if (got.error != 0) return got;
    return {.value = static_cast<std::int64_t>(status.f_bavail * status.f_frsize)};
  }
};

}  // namespace

Answer FileSystem::map(int /*handle*/, std::uint64_t /*bytes*/, const std::byte*& /*at*/) {
  return {.value = -1, .error = ENOTSUP};
}
void FileSystem::unmap(const std::byte* /*at*/, std::uint64_t /*bytes*/) {}

FileSystem& real_file_system() {
  static Disk disk;
  return disk;
}

void turn_file_size_signals_into_errors() { std::signal(SIGXFSZ, SIG_IGN); }

}  // namespace norma::io
