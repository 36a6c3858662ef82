// A file as a stream of bytes, plain or compressed, whatever its size. What it is shows in its
// first bytes and not in its name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "norma/io/file_system.h"

namespace norma::io {

/// Bytes in order, once. An Error names the file, the byte of the file and what is wrong there;
/// checksums come after what they guard, so what was read before an Error may be wrong as well.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Fills the front of `into` and returns how much; less than asked for means nothing, 0 means the
  /// end (or that `into` is empty).
  virtual std::size_t read(std::span<std::byte> into) = 0;

  virtual const std::string& name() const = 0;  // for sentences: the path, or "standard input"
  /// For progress: how many bytes of the file were used, as they lie on the disk.
  virtual std::uint64_t position() const = 0;
  /// How many there are; absent for pipes.
  virtual std::optional<std::uint64_t> size() const = 0;
};

/// Opens a file, a pipe (waiting for its writer) or, for "-", standard input: plain bytes, or gzip,
/// xz or zstd, of one or several members, as unpacked bytes. Memory stays bounded: an xz file may
/// ask for 512 MiB and a zstd file for a window of 128 MiB, which covers all levels of their tools.
std::unique_ptr<ByteSource> open_source(FileSystem& system, const std::string& path);

/// Reads until `into` is full or the source ends; the count.
std::size_t read_fully(ByteSource& source, std::span<std::byte> into);

/// Everything that is left; an Error when that is more than `limit` bytes.
std::string read_text(ByteSource& source, std::uint64_t limit);

}  // namespace norma::io
