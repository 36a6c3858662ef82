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
    : system_(system), path_(std::move(path)) {}

File& LineFile::open() {
  if (file_) return *file_;
  file_.emplace(system_, path_, OpenAs::append);
  try {
    durable_ = walk_lines(*file_, [](std::string_view) { return true; });
    if (durable_ < file_->info().bytes) file_->truncate(durable_);
  } catch (const Error&) {
    file_.reset();  // the next use tries again
    throw;
  }
  return *file_;
}

void LineFile::keep_while(const std::function<bool(std::string_view line)>& wanted) {
  File& file = open();
  durable_ = walk_lines(file, wanted);
  if (durable_ < file.info().bytes) file.truncate(durable_);
  recent_.clear();
  written_ = 0;
}

void LineFile::add(std::string_view line) {
  recent_.append(line).push_back('\n');
  flush();
}

void LineFile::flush() {
  File& file = open();
  if (torn_) {
    file.truncate(durable_ + written_);
    torn_ = false;
  }
  if (written_ == recent_.size()) return;
  torn_ = true;  // until all of it is there
  write_text(file, std::string_view(recent_).substr(written_));
  torn_ = false;
  written_ = recent_.size();
}

void LineFile::sync() {
  if (!file_ && recent_.empty()) return;
  flush();
  try {
    file_->sync();
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
