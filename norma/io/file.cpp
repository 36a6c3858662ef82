#include "norma/io/file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <unistd.h>

#include "norma/base/text.h"

namespace norma::io {

namespace {

std::string hint_of(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return " Free some space, or choose another folder.";
    case EFBIG:
      return " The shell limits the size of files (ulimit -f), or the file system does.";
    case EACCES:
    case EPERM:
    case EROFS:
      return " Choose a folder that you may write to, or change its permissions.";
    case EIO:
      return " The disk reports a fault; look into the system's log.";
    default:
      return "";
  }
}

std::string sentence(std::string_view doing, std::string_view path, int code) {
  const char* words = strerrordesc_np(code);
  const char* name = strerrorname_np(code);
  return say("cannot ",
             doing,
             " ",
             path,
             ": ",
             words != nullptr ? words : "unknown error",
             " (",
             name != nullptr ? name : to_text(code).c_str(),
             ").",
             hint_of(code));
}

// A signal handler may end a call before it did anything; the call is then made again.
template <class Call>
Answer insist(Call&& call) {
  Answer got = call();
  while (got.error == EINTR) got = call();
  return got;
}

void demand(const Answer& got, std::string_view doing, std::string_view path) {
  if (got.error != 0) throw FileError(doing, path, got.error);
}

std::string_view doing_of(OpenAs how) {
  switch (how) {
    case OpenAs::create_new:
      return "create";
    case OpenAs::shared:
      return "open for locking";
    case OpenAs::append:
      return "open for writing";
    case OpenAs::folder:
      return "open the folder";
    case OpenAs::read:
    case OpenAs::stream:
    case OpenAs::look:
      break;
  }
  return "open";
}

}  // namespace

FileError::FileError(std::string_view doing, std::string_view path, int code)
    : Error(sentence(doing, path, code)), code_(code) {}

void write_text(ByteSink& sink, std::string_view text) {
  sink.write(std::as_bytes(std::span(text.data(), text.size())));
}

File::File(FileSystem& system, std::string path, OpenAs how)
    : system_(system), path_(std::move(path)) {
  const Answer got = insist([&] { return system_.open(path_, how); });
  demand(got, doing_of(how), path_);
  handle_ = static_cast<int>(got.value);
}

File::~File() {
  if (handle_ >= 0) system_.close(handle_);
}

FileInfo File::info() const {
  FileInfo found;
  demand(system_.info(handle_, found), "look at", path_);
  return found;
}

void File::read(std::uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const Answer got = insist([&] { return system_.read_at(handle_, offset, into); });
    demand(got, "read", path_);
    if (got.value == 0) {
      throw Error(say(path_,
                      " ended at byte ",
                      offset,
                      ", where ",
                      into.size(),
                      " more were expected; it is cut off, or changes while it is read."));
    }
    offset += static_cast<std::uint64_t>(got.value);
    into = into.subspan(static_cast<std::size_t>(got.value));
  }
}

std::string File::text(std::uint64_t limit) const {
  const FileInfo found = info();
  if (found.kind != FileInfo::Kind::file) throw Error(say(path_, " is not a regular file."));
  if (found.bytes > limit) {
    throw Error(say(path_, " has ", found.bytes, " bytes; at most ", limit, " were expected."));
  }
  std::string all(found.bytes, '\0');
  read(0, std::as_writable_bytes(std::span(all)));
  return all;
}

const std::byte* File::map(std::uint64_t bytes) const {
  const std::byte* at = nullptr;
  const Answer got = insist([&] { return system_.map(handle_, bytes, at); });
  if (got.error == ENOTSUP) return nullptr;
  demand(got, "map", path_);
  return at;
}

void File::write(Bytes bytes) {
  while (!bytes.empty()) {
    const Answer got = insist([&] { return system_.write(handle_, bytes); });
    demand(got, "write", path_);
    // A disk that takes nothing and reports nothing would keep us here for ever.
    if (got.value == 0) throw FileError("write", path_, ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(got.value));
  }
}

void File::truncate(std::uint64_t bytes) {
  demand(insist([&] { return system_.truncate(handle_, bytes); }), "truncate", path_);
}

void File::sync() { demand(system_.sync(handle_), "make durable", path_); }

void File::close() {
  const Answer got = system_.close(handle_);
  handle_ = -1;
  // Interrupted or not, Linux has closed it; a second close could hit somebody else's file.
  if (got.error != EINTR) demand(got, "close", path_);
}

bool File::try_lock() {
  const Answer got = insist([&] { return system_.lock(handle_); });
  if (got.error == EWOULDBLOCK) return false;
  demand(got, "lock", path_);
  return true;
}

std::string join(std::string_view folder, std::string_view name) {
  if (folder.empty() || folder.back() == '/') return say(folder, name);
  return say(folder, "/", name);
}

std::string last_part(std::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));
}

std::string parent_of(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(path.substr(0, std::max<std::size_t>(slash, 1)));
}

bool is_plain_file_name(std::string_view name) {
  constexpr std::size_t kLongest = 255;
  return !name.empty() && name.size() <= kLongest && name.front() != '.' &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

bool is_there(FileSystem& system, const std::string& path) {
  const Answer got = insist([&] { return system.open(path, OpenAs::read); });
  if (got.error == ENOENT || got.error == ENOTDIR) return false;
  demand(got, "open", path);
  system.close(static_cast<int>(got.value));
  return true;
}

bool remove_file(FileSystem& system, const std::string& path) {
  const Answer got = insist([&] { return system.remove_file(path); });
  if (got.error == ENOENT) return false;
  demand(got, "remove", path);
  return true;
}

void make_folders(FileSystem& system, const std::string& path) {
  if (is_there(system, path)) return;
  if (const std::string parent = parent_of(path); parent != path) make_folders(system, parent);
  make_folder(system, path);
}

bool make_folder(FileSystem& system, const std::string& path) {
  const Answer got = insist([&] { return system.make_folder(path); });
  if (got.error != 0 && got.error != EEXIST) throw FileError("make the folder", path, got.error);
  sync_folder(system, parent_of(path));  // also when it was there: its maker may have died before
  return got.error == 0;
}

void sync_folder(FileSystem& system, const std::string& path) {
  File folder(system, path, OpenAs::folder);
  folder.sync();
  folder.close();
}

std::vector<std::string> list_folder(FileSystem& system, const std::string& path) {
  std::vector<std::string> names;
  demand(insist([&] { return system.list(path, names); }), "list the folder", path);
  std::sort(names.begin(), names.end());
  return names;
}

void rename(FileSystem& system, const std::string& from, const std::string& to) {
  demand(insist([&] { return system.rename(from, to); }), say("rename ", from, " to"), to);
}

namespace {
constexpr std::string_view kBeside = ".tmp.";
}  // namespace

bool left_by_replace_file(std::string_view name) {
  return name.find(kBeside) != std::string_view::npos;
}

void replace_file(FileSystem& system, const std::string& path, std::string_view contents) {
  const std::string fresh = say(path, kBeside, ::getpid());
  remove_file(system, fresh);  // of a process that had this number before and died
  try {
    File file(system, fresh, OpenAs::create_new);
    write_text(file, contents);
    file.sync();
    file.close();
    demand(insist([&] { return system.replace(fresh, path); }), "write", path);
  } catch (const Error&) {
    system.remove_file(fresh);  // the reason is already on its way to the user
    throw;
  }
  sync_folder(system, parent_of(path));
}

void remove_flat_folder(FileSystem& system, const std::string& path) {
  std::vector<std::string> names;
  const Answer listed = insist([&] { return system.list(path, names); });
  if (listed.error == ENOTDIR || listed.error == ELOOP) {
    demand(insist([&] { return system.remove_file(path); }), "remove", path);
    return;
  }
  demand(listed, "list the folder", path);
  for (const std::string& name : names) {
    const std::string file = join(path, name);
    demand(insist([&] { return system.remove_file(file); }), "remove", file);
  }
  demand(insist([&] { return system.remove_folder(path); }), "remove the folder", path);
}

}  // namespace norma::io
