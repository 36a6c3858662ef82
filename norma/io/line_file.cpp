#include "norma/io/line_file.h"

#include <algorithm>
#include <vector>

namespace norma::io {

namespace {

constexpr std::size_t kPiece = 1 << 20;

/// Calls take(begin, line) for every whole line until it returns false; returns the end of the last
/// line taken.
template <class Take>
std::uint64_t walk_lines(const File& file, Take&& take) {
  const std::uint64_t bytes = file.info().bytes;
  std::string text;  // from the start of a line on
  std::uint64_t begin = 0;
  for (std::uint64_t at = 0; at < bytes;) {
    const std::size_t count = std::min<std::uint64_t>(kPiece, bytes - at);
    const std::size_t before = text.size();
    text.resize(before + count);
    file.read(at, std::as_writable_bytes(std::span(text).subspan(before)));
    at += count;
    std::size_t start = 0;
    for (std::size_t end = text.find('\n', before); end != std::string::npos;
         end = text.find('\n', start)) {
      if (!take(std::string_view(text).substr(start, end - start))) return begin + start;
      start = end + 1;
    }
    text.erase(0, start);
    begin += start;
  }
  return begin;
}

}  // namespace

LineFile::LineFile(FileSystem& system, std::string path)
    : file_(system, std::move(path), OpenAs::append) {
  keep_while([](std::string_view) { return true; });
}

void LineFile::keep_while(const std::function<bool(std::string_view line)>& wanted) {
  const std::uint64_t end = walk_lines(file_, wanted);
  if (end < file_.info().bytes) file_.truncate(end);
  durable_ = end;
  recent_.clear();
  written_ = 0;
}

void LineFile::add(std::string_view line) {
  recent_.append(line).push_back('\n');
  flush();
}

void LineFile::flush() {
  if (torn_) {
    file_.truncate(durable_ + written_);
    torn_ = false;
  }
  if (written_ == recent_.size()) return;
  torn_ = true;  // until all of it is there
  write_text(file_, std::string_view(recent_).substr(written_));
  torn_ = false;
  written_ = recent_.size();
}

void LineFile::sync() {
  flush();
  try {
    file_.sync();
  } catch (const FileError&) {
    written_ = 0;
    torn_ = true;
    throw;
  }
  durable_ += recent_.size();
  recent_.clear();
  written_ = 0;
}

}  // namespace norma::io
