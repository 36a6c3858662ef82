#include "norma/io/safetensors.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "norma/base/text.h"
#include "norma/io/safetensors_limits.h"
#include "norma/io/strict_json.h"

namespace norma::io {

namespace {

void check_names(const std::vector<StoredTensor>& order) {
  std::vector<std::string_view> names;
  for (const StoredTensor& tensor : order) {
    const std::string_view name = tensor.name;
    if (name.empty() || name.size() > kMaxName || name == "__metadata__" ||
        name.find('\0') != std::string_view::npos || first_bad_utf8(name) != name.npos) {
      throw RequestError(say("safetensors: ",
                             json_string_start(name),
                             " cannot name a tensor: 1 to ",
                             kMaxName,
                             " bytes of UTF-8 without NUL can, __metadata__ cannot."));
    }
    if (tensor.type == nullptr) throw RequestError(say("safetensors: ", name, " has no type."));
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    throw RequestError(say("safetensors: two tensors are named ", *twice, "."));
  }
}

void check_metadata(const Metadata& metadata) {
  std::uint64_t bytes = 0;
  for (const auto& [key, value] : metadata) {
    bytes += key.size() + value.size();
    if (first_bad_utf8(key) != key.npos || first_bad_utf8(value) != value.npos) {
      throw RequestError(say("safetensors: metadata must be UTF-8, and ", key, " is not."));
    }
  }
  if (bytes > kMaxMetadata || metadata.size() > kMaxMetadataEntries) {
    throw RequestError(say("safetensors: metadata of ",
                           metadata.size(),
                           " entries and ",
                           bytes,
                           " bytes; at most ",
                           kMaxMetadataEntries,
                           " and ",
                           kMaxMetadata,
                           " are allowed."));
  }
}

template <class List, class Text>
std::string comma_list(const List& list, Text&& text) {
  std::string joined;
  for (const auto& item : list) joined += say(joined.empty() ? "" : ",", text(item));
  return joined;
}

std::string header_of(const std::vector<StoredTensor>& order, const Metadata& metadata) {
  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{" +
              comma_list(metadata,
                         [](const auto& entry) {
                           return say(json_string(entry.first), ":", json_string(entry.second));
                         }) +
              "}";
    if (!order.empty()) header += ",";
  }
  header += comma_list(order, [](const StoredTensor& tensor) {
    return say(json_string(tensor.name),
               ":{\"dtype\":\"",
               tensor.type->word,
               "\",\"shape\":[",
               comma_list(tensor.shape, [](std::uint64_t extent) { return to_text(extent); }),
               "],\"data_offsets\":[",
               tensor.begin,
               ",",
               tensor.end,
               "]}");
  });
  header += "}";
  while (header.size() % 8 != 0) header += ' ';
  return header;
}

}  // namespace

const StoredTensor* SafetensorsLayout::find(std::string_view name) const {
  const auto found = std::find_if(
      tensors.begin(), tensors.end(), [&](const StoredTensor& t) { return t.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

std::string text_of(const TensorSpec& spec) {
  std::string text = say(spec.type->word, " (");
  for (std::size_t i = 0; i < spec.shape.size(); ++i) text += say(i > 0 ? ", " : "", spec.shape[i]);
  return text + ")";
}

std::uint64_t bytes_of(const TensorSpec& spec) {
  const std::string label = json_string_start(spec.name);
  if (spec.shape.size() > kMaxRank) {
    throw RequestError(say(label, " has more than ", kMaxRank, " extents."));
  }
  std::uint64_t bits = spec.type->bits;
  // An extent of 0 makes the tensor empty, but only if the other extents are possible at all: each
  // product is checked as if the zeros were ones.
  bool empty = false;
  for (const std::uint64_t extent : spec.shape) {
    empty = empty || extent == 0;
    if (extent > kMaxExtent) {
      throw RequestError(
          say(label, " has an extent of ", extent, "; at most ", kMaxExtent, " is allowed."));
    }
    if (extent != 0 && bits > std::numeric_limits<std::uint64_t>::max() / extent) {
      throw RequestError(say(label, " is ", text_of(spec), ", more bits than 64 bits can count."));
    }
    bits *= std::max<std::uint64_t>(extent, 1);
  }
  if (empty) return 0;
  if (bits % 8 != 0) {
    throw RequestError(say(label, " is ", text_of(spec), ", which is no whole number of bytes."));
  }
  return bits / 8;
}

SafetensorsFile::SafetensorsFile(FileSystem& system, std::string path)
    : file_(system, std::move(path), OpenAs::read), layout_(read_layout(file_)) {}

void SafetensorsFile::read(const StoredTensor& tensor,
                           std::uint64_t first,
                           std::span<std::byte> into) const {
  if (first > tensor.bytes() || into.size() > tensor.bytes() - first) {
    throw RequestError(say(path(),
                           ": bytes ",
                           first,
                           " and the ",
                           into.size(),
                           " after it lie outside ",
                           tensor.name,
                           ", which has ",
                           tensor.bytes(),
                           "."));
  }
  file_.read(layout_.data_start + tensor.begin + first, into);
}

SafetensorsWriter::SafetensorsWriter(ByteSink& sink,
                                     std::vector<TensorSpec> tensors,
                                     const Metadata& metadata)
    : sink_(sink) {
  if (tensors.size() > kMaxTensors) {
    throw RequestError(
        say("safetensors: ", tensors.size(), " tensors; at most ", kMaxTensors, " are allowed."));
  }
  for (TensorSpec& spec : tensors) {
    StoredTensor& tensor = order_.emplace_back();
    static_cast<TensorSpec&>(tensor) = std::move(spec);
  }
  check_names(order_);
  check_metadata(metadata);
  std::sort(order_.begin(), order_.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(b.type->alignment, a.name) < std::tie(a.type->alignment, b.name);
  });
  std::uint64_t reached = 0;
  for (StoredTensor& tensor : order_) {
    const std::uint64_t bytes = bytes_of(tensor);
    if (bytes > std::numeric_limits<std::int64_t>::max() - reached) {
      throw RequestError("safetensors: the tensors together exceed what a file can hold.");
    }
    tensor.begin = reached;
    tensor.end = reached += bytes;
  }
  const std::string header = header_of(order_, metadata);
  const std::uint64_t length = header.size();
  if (length > kMaxHeader) {
    throw RequestError(
        say("safetensors: a header of ", length, " bytes; at most ", kMaxHeader, " are allowed."));
  }
  file_bytes_ = 8 + length + reached;
  sink_.write(std::as_bytes(std::span(&length, 1)));
  write_text(sink_, header);
  skip_finished();
}

// Empty tensors have no turn.
void SafetensorsWriter::skip_finished() {
  while (turn_ < order_.size() && order_[turn_].end == written_) ++turn_;
}

void SafetensorsWriter::write(std::string_view name, Bytes piece) {
  if (piece.empty()) return;
  const std::string due = turn_ < order_.size() ? order_[turn_].name : "nothing more";
  if (turn_ == order_.size() || name != due) {
    throw Error(say("safetensors: data of ", name, " came when ", due, " was due."));
  }
  if (piece.size() > order_[turn_].end - written_) {
    throw Error(say("safetensors: ",
                    piece.size(),
                    " bytes came for ",
                    name,
                    ", which lacks ",
                    order_[turn_].end - written_,
                    "."));
  }
  sink_.write(piece);
  written_ += piece.size();
  skip_finished();
}

void SafetensorsWriter::finish() const {
  if (turn_ < order_.size()) {
    throw Error(
        say("safetensors: the data of ", order_[turn_].name, " did not come, or not all of it."));
  }
}

}  // namespace norma::io
