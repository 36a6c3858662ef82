// The bytes of a file as they lie there, a buffer at a time: what decompressors eat.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "norma/io/byte_source.h"
#include "norma/io/file_system.h"

namespace norma::io {

class InputBuffer {
 public:
  InputBuffer(FileSystem& system, const std::string& path);  // "-": standard input
  ~InputBuffer();
  InputBuffer(const InputBuffer&) = delete;
  InputBuffer& operator=(const InputBuffer&) = delete;

  /// What was read from the file and not taken yet.
  Bytes waiting() const { return Bytes(buffer_).subspan(begin_, end_ - begin_); }
  /// Reads until at least `bytes` are waiting; false when the file ends before.
  bool wait_for(std::size_t bytes);
  void take(std::size_t bytes) { begin_ += bytes; }

  const std::string& name() const { return name_; }
  std::uint64_t position() const { return read_ - (end_ - begin_); }  // bytes taken so far
  std::optional<std::uint64_t> size() const { return size_; }

 private:
  FileSystem& system_;
  std::string name_;
  int handle_ = 0;
  bool owned_ = false;  // standard input stays open
  std::optional<std::uint64_t> size_;
  std::uint64_t read_ = 0;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

using Input = std::unique_ptr<InputBuffer>;

/// What the sources have in common: a name, a position and the two sentences of damage.
class BufferedSource : public ByteSource {
 public:
  explicit BufferedSource(Input input) : input_(std::move(input)) {}
  const std::string& name() const override { return input_->name(); }
  std::uint64_t position() const override { return input_->position(); }
  std::optional<std::uint64_t> size() const override { return input_->size(); }

 protected:
  InputBuffer& input() { return *input_; }
  [[noreturn]] void refuse_damaged(const std::string& format, const std::string& what) const;
  [[noreturn]] void refuse_cut_off(const std::string& format) const;

 private:
  Input input_;
};

// One page per format; each takes a file that begins as the format does.
std::unique_ptr<ByteSource> open_gzip(Input input);
std::unique_ptr<ByteSource> open_xz(Input input);
std::unique_ptr<ByteSource> open_zstd(Input input);

}  // namespace norma::io
