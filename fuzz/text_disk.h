// A disk that holds a few texts and can only be read. It copies nothing and keeps no history, so
// that a target spends its time in the reader.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "norma/io/file_system.h"

namespace norma::fuzz {

class TextDisk final : public io::FileSystem {
 public:
  /// The texts must outlive the disk. A file "d/x" makes the folder "d".
  void put(std::string path, std::string_view text) { files_.emplace_back(std::move(path), text); }

  io::Answer open(const std::string& path, io::OpenAs /*how*/) override {
    for (std::size_t i = 0; i < files_.size(); ++i) {
      if (files_[i].first == path) return {.value = static_cast<std::int64_t>(i)};
      if (is_folder(path, files_[i].first)) return {.value = kFolder};
    }
    return failed(ENOENT);
  }
  io::Answer close(int /*handle*/) override { return {}; }
  io::Answer read_at(int handle, std::uint64_t offset, std::span<std::byte> into) override {
    const std::string_view text = text_of(handle);
    const std::size_t from = std::min<std::uint64_t>(offset, text.size());
    const std::size_t count = std::min(into.size(), text.size() - from);
    if (count > 0) std::memcpy(into.data(), text.data() + from, count);
    return {.value = static_cast<std::int64_t>(count)};
  }
  io::Answer map(int handle, std::uint64_t /*bytes*/, const std::byte*& at) override {
    at = reinterpret_cast<const std::byte*>(text_of(handle).data());
    return {};
  }
  void unmap(const std::byte* /*at*/, std::uint64_t /*bytes*/) override {}
  io::Answer info(int handle, io::FileInfo& info) override {
    info.kind = handle == kFolder ? io::FileInfo::Kind::folder : io::FileInfo::Kind::file;
    info.bytes = text_of(handle).size();
    return {};
  }
  io::Answer list(const std::string& folder, std::vector<std::string>& names) override {
    names.clear();
    for (const auto& file : files_) {
      if (file.first.starts_with(folder)) names.push_back(file.first.substr(folder.size()));
    }
    return {};
  }

  io::Answer write(int, io::Bytes) override { return failed(EROFS); }
  io::Answer read_next(int, std::span<std::byte>) override { return failed(EROFS); }
  io::Answer truncate(int, std::uint64_t) override { return failed(EROFS); }
  io::Answer sync(int) override { return failed(EROFS); }
  io::Answer lock(int) override { return failed(EROFS); }
  io::Answer rename(const std::string&, const std::string&) override { return failed(EROFS); }
  io::Answer replace(const std::string&, const std::string&) override { return failed(EROFS); }
  io::Answer remove_file(const std::string&) override { return failed(EROFS); }
  io::Answer make_folder(const std::string&) override { return failed(EROFS); }
  io::Answer remove_folder(const std::string&) override { return failed(EROFS); }
  io::Answer free_bytes(const std::string&) override { return failed(EROFS); }

 private:
  static constexpr int kFolder = 1 << 20;

  static io::Answer failed(int error) { return {.value = -1, .error = error}; }
  static bool is_folder(std::string_view path, std::string_view file) {
    return file.size() > path.size() && file.starts_with(path) && file[path.size()] == '/';
  }
  std::string_view text_of(int handle) const {
    return handle == kFolder ? std::string_view{} : files_[static_cast<std::size_t>(handle)].second;
  }

  std::vector<std::pair<std::string, std::string_view>> files_;
};

}  // namespace norma::fuzz
