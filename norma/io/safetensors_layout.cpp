// The checks of a header. Their numbers are those of docs/formats/checkpoint.md.
#include <algorithm>
#include <bit>
#include <optional>
#include <tuple>

#include "norma/base/text.h"
#include "norma/io/safetensors.h"
#include "norma/io/safetensors_limits.h"
#include "norma/io/strict_json.h"

namespace norma::io {

static_assert(std::endian::native == std::endian::little, "files are little-endian, and so are we");

namespace {

[[noreturn]] void refuse(const File& file, std::string_view complaint) {
  throw Error(say(file.path(), " is not a sound safetensors file: ", complaint));
}

// Checks 1 and 2: the kind of the file, its size, the length of the header.
std::uint64_t header_length(const File& file, std::uint64_t size) {
  if (size < 8) refuse(file, say("it has ", size, " bytes, and the length of its header takes 8."));
  std::uint64_t length = 0;
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kMaxHeader) {
    refuse(file,
           say("its header claims ", length, " bytes; at most ", kMaxHeader, " are allowed."));
  }
  if (length < 2) refuse(file, say("its header claims ", length, " bytes; {} is the shortest."));
  if (length > size - 8) {
    refuse(file, say("its header claims ", length, " bytes, and ", size - 8, " follow."));
  }
  return length;
}

// Check 7.
Metadata read_metadata(StrictJson& json) {
  Metadata metadata;
  std::uint64_t bytes = 0;
  json.object([&](const std::string& key) {
    std::string value = json.string();
    bytes += key.size() + value.size();
    if (bytes > kMaxMetadata) json.refuse(say("__metadata__ exceeds ", kMaxMetadata, " bytes."));
    metadata.emplace(key, std::move(value));
    if (metadata.size() > kMaxMetadataEntries) {
      json.refuse(say("__metadata__ has more than ", kMaxMetadataEntries, " entries."));
    }
  });
  return metadata;
}

// Check 10.
std::vector<std::uint64_t> read_shape(StrictJson& json) {
  std::vector<std::uint64_t> shape;
  json.array([&] {
    if (shape.size() == kMaxRank) json.refuse(say("a shape has more than ", kMaxRank, " extents."));
    shape.push_back(json.integer());
    if (shape.back() > kMaxExtent) {
      json.refuse(say("the extent ", shape.back(), " is beyond ", kMaxExtent, "."));
    }
  });
  return shape;
}

// Checks 8 to 11, and 12 as far as it needs no neighbour.
StoredTensor read_tensor(StrictJson& json, const std::string& name, std::uint64_t data_bytes) {
  const std::string label = json_string_start(name);
  if (name.empty() || name.size() > kMaxName) {
    json.refuse(
        say("a tensor's name has ", name.size(), " bytes; 1 to ", kMaxName, " are allowed."));
  }
  if (name.find('\0') != std::string::npos) json.refuse("a tensor's name holds a NUL.");

  StoredTensor tensor;
  tensor.name = name;
  std::optional<std::vector<std::uint64_t>> shape;
  std::vector<std::uint64_t> offsets;
  json.object([&](const std::string& key) {
    if (key == "dtype") {
      const std::string word = json.string();
      tensor.type = find_stored_type(word);
      if (tensor.type == nullptr) {
        json.refuse(say(label, " has the unknown dtype ", json_string_start(word), "."));
      }
    } else if (key == "shape") {
      shape = read_shape(json);
    } else if (key == "data_offsets") {
      json.array([&] {
        if (offsets.size() == 2) json.refuse(say(label, " has more than two data_offsets."));
        offsets.push_back(json.integer());
      });
      if (offsets.size() != 2) json.refuse(say(label, " has fewer than two data_offsets."));
    } else {
      json.refuse(say(label,
                      " has the unknown key ",
                      json_string_start(key),
                      "; dtype, shape and data_offsets are known."));
    }
  });
  if (tensor.type == nullptr) json.refuse(say(label, " has no dtype."));
  if (!shape) json.refuse(say(label, " has no shape."));
  if (offsets.empty()) json.refuse(say(label, " has no data_offsets."));

  tensor.shape = std::move(*shape);
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  if (tensor.begin > tensor.end) {
    json.refuse(say(label, " begins at ", tensor.begin, " and ends before, at ", tensor.end, "."));
  }
  if (tensor.end > data_bytes) {
    json.refuse(
        say(label, " ends at ", tensor.end, ", and the file has ", data_bytes, " bytes of data."));
  }
  std::uint64_t wanted = 0;
  try {
    wanted = bytes_of(tensor);
  } catch (const RequestError& error) {
    json.refuse(error.what());
  }
  if (tensor.bytes() != wanted) {
    json.refuse(say(label,
                    " is ",
                    text_of(tensor),
                    " and takes ",
                    wanted,
                    " bytes, but spans ",
                    tensor.bytes(),
                    "."));
  }
  return tensor;
}

// Check 13: sorted by place, the tensors tile the data without hole, overlap or rest.
void check_tiling(const File& file, std::vector<StoredTensor>& tensors, std::uint64_t data_bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t reached = 0;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.begin != reached) {
      refuse(file,
             say(json_string(tensor.name),
                 " begins at ",
                 tensor.begin,
                 tensor.begin > reached ? ", which leaves a hole after "
                                        : ", which overlaps the tensor that ends at ",
                 reached,
                 "."));
    }
    reached = tensor.end;
  }
  if (reached != data_bytes) {
    refuse(file,
           say("its tensors end at ", reached, ", and it has ", data_bytes, " bytes of data."));
  }
}

}  // namespace

SafetensorsLayout read_layout(const File& file) {
  const FileInfo info = file.info();
  if (info.kind != FileInfo::Kind::file) refuse(file, "it is not a regular file.");
  const std::uint64_t length = header_length(file, info.bytes);
  const std::uint64_t data_bytes = info.bytes - 8 - length;
  std::string header(length, '\0');
  file.read(8, std::as_writable_bytes(std::span(header)));

  SafetensorsLayout layout;
  layout.data_start = 8 + length;
  StrictJson json(file.path(), header);  // checks 3, 5 and 6
  json.object([&](const std::string& name) {
    if (name == "__metadata__") {
      layout.metadata = read_metadata(json);
      return;
    }
    layout.tensors.push_back(read_tensor(json, name, data_bytes));
    if (layout.tensors.size() > kMaxTensors) {
      json.refuse(say("there are more than ", kMaxTensors, " tensors."));
    }
  });
  json.end();  // check 4
  check_tiling(file, layout.tensors, data_bytes);

  if (header.front() != '{') layout.remarks.emplace_back("the header begins with white space.");
  if (layout.data_start % 8 != 0) {
    layout.remarks.push_back(
        say("the data begin at byte ", layout.data_start, ", which is no multiple of 8."));
  }
  return layout;
}

}  // namespace norma::io
