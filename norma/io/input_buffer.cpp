#include "norma/io/input_buffer.h"

#include <algorithm>
#include <cerrno>

#include "norma/base/text.h"
#include "norma/io/file.h"

namespace norma::io {

namespace {

constexpr std::size_t kBufferBytes = std::size_t{128} << 10;
constexpr int kStandardInput = 0;

}  // namespace

InputBuffer::InputBuffer(FileSystem& system, const std::string& path)
    : system_(system), name_(path), buffer_(kBufferBytes) {
  if (path == "-") {
    name_ = "standard input";
    handle_ = kStandardInput;
  } else {
    Answer opened = system_.open(path, OpenAs::stream);
    while (opened.error == EINTR) opened = system_.open(path, OpenAs::stream);
    if (opened.error != 0) throw FileError("open", path, opened.error);
    handle_ = static_cast<int>(opened.value);
    owned_ = true;
  }
  FileInfo info;
  if (system_.info(handle_, info).error == 0 && info.kind == FileInfo::Kind::file) {
    size_ = info.bytes;
  }
}

InputBuffer::~InputBuffer() {
  if (owned_) system_.close(handle_);
}

bool InputBuffer::wait_for(std::size_t bytes) {
  while (end_ - begin_ < bytes) {
    if (begin_ > 0) {
      std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
                buffer_.begin() + static_cast<std::ptrdiff_t>(end_),
                buffer_.begin());
      end_ -= begin_;
      begin_ = 0;
    }
    const Answer got = system_.read_next(handle_, std::span(buffer_).subspan(end_));
    if (got.error == EINTR) continue;
    if (got.error != 0) throw FileError("read", name_, got.error);
    if (got.value == 0) return false;
    end_ += static_cast<std::size_t>(got.value);
    read_ += static_cast<std::uint64_t>(got.value);
  }
  return true;
}

void BufferedSource::refuse_damaged(const std::string& format, const std::string& what) const {
  throw Error(say(name(),
                  " is damaged near byte ",
                  position(),
                  ": its ",
                  format,
                  " data are not sound (",
                  what,
                  "). Get it again."));
}

void BufferedSource::refuse_cut_off(const std::string& format) const {
  throw Error(say(name(),
                  " ends at byte ",
                  position(),
                  " in the middle of its ",
                  format,
                  " data; it is cut off. Get it again."));
}

}  // namespace norma::io
