// Tensors in a file: 8 bytes of length N (little-endian), N bytes of JSON, then the data, row-major
// and little-endian. This page knows names, type words, shapes and bytes; what they mean is the
// caller's business. Reading trusts nothing: docs/formats/checkpoint.md lists the checks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "norma/io/file.h"
#include "norma/io/stored_type.h"

namespace norma::io {

using Metadata = std::map<std::string, std::string>;

struct TensorSpec {
  std::string name;
  const StoredType* type = nullptr;
  std::vector<std::uint64_t> shape;
};

/// A tensor of a file: its bytes are [begin, end), counted from the start of the data.
struct StoredTensor : TensorSpec {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t bytes() const { return end - begin; }
};

struct SafetensorsLayout {
  std::vector<StoredTensor> tensors;  // in the order of their data
  Metadata metadata;
  std::uint64_t data_start = 0;      // in the file
  std::vector<std::string> remarks;  // legal but unusual: sentences for a strict check

  const StoredTensor* find(std::string_view name) const;  // or null; a search through all
};

/// "F32 (2, 3)"
std::string text_of(const TensorSpec& spec);

/// Bytes of a tensor, or a RequestError when they are no whole number or do not fit into 64 bits.
std::uint64_t bytes_of(const TensorSpec& spec);

/// Validates a file's header against its size and returns what it describes. Everything is checked
/// here and before any tensor's memory is asked for; there is no second, more lenient way in.
SafetensorsLayout read_layout(const File& file);

/// A file that passed read_layout, open for reading its tensors. Reads copy: a mapped file that
/// somebody cuts short later would kill the process.
class SafetensorsFile {
 public:
  SafetensorsFile(FileSystem& system, std::string path);

  const std::string& path() const { return file_.path(); }
  const SafetensorsLayout& layout() const { return layout_; }
  /// The bytes of `tensor` from its byte `first` on; `into` must not reach past its end.
  void read(const StoredTensor& tensor, std::uint64_t first, std::span<std::byte> into) const;
  void read(const StoredTensor& tensor, std::span<std::byte> into) const { read(tensor, 0, into); }

 private:
  File file_;
  SafetensorsLayout layout_;
};

/// Writes a file as a stream: the header at once, then the tensors in order(), each in as many
/// pieces as the caller likes.
class SafetensorsWriter {
 public:
  /// Throws a RequestError, before a byte is written, for what the reader would refuse.
  SafetensorsWriter(ByteSink& sink, std::vector<TensorSpec> tensors, const Metadata& metadata);

  /// By descending alignment, then by name.
  const std::vector<StoredTensor>& order() const { return order_; }
  std::uint64_t file_bytes() const { return file_bytes_; }
  /// The next piece of `name`, which must be the tensor whose turn it is.
  void write(std::string_view name, Bytes piece);
  /// All data must have come.
  void finish() const;

 private:
  void skip_finished();

  ByteSink& sink_;
  std::vector<StoredTensor> order_;
  std::uint64_t file_bytes_ = 0;
  std::size_t turn_ = 0;       // index into order_
  std::uint64_t written_ = 0;  // bytes of all tensors so far
};

/// Refuses, in one sentence, a file that lacks tensors, has others, or has them in another type or
/// shape: the first ten and a count. Called before anything is read into the model.
void require_tensors(std::string_view file,
                     const SafetensorsLayout& found,
                     const std::vector<TensorSpec>& wanted);

}  // namespace norma::io
