// libFuzzer target of the safetensors reader. The mutator changes the tensors of a sound file and
// writes it with fitting offsets, but in any order and with any white space; or changes single
// tokens of a header and sets its length right.
#include <algorithm>
#include <cstring>
#include <optional>

#include "fuzz/mutate.h"
#include "fuzz/target.h"
#include "fuzz/text_disk.h"

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/io/safetensors.h"
#include "norma/io/strict_json.h"

namespace norma::io {
namespace {

using fuzz::complain;
using fuzz::one_in;
using fuzz::one_of;
using fuzz::Random;

constexpr const char* kWords[] = {"F64", "F32", "BF16", "U8", "F4", "F6_E3M2", "C64", "BOOL"};

class StringSink final : public ByteSink {
 public:
  void write(Bytes bytes) override {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  std::string text;
};

std::string written(const std::vector<StoredTensor>& tensors, const Metadata& metadata) {
  StringSink sink;
  SafetensorsWriter writer(sink, {tensors.begin(), tensors.end()}, metadata);
  for (const StoredTensor& tensor : writer.order()) {
    const std::string data(tensor.bytes(), 'd');
    writer.write(tensor.name, std::as_bytes(std::span(data)));
  }
  writer.finish();
  return sink.text;
}

/// What holds of every file that the reader accepts.
void check_accepted(const SafetensorsFile& file, std::uint64_t size) {
  const SafetensorsLayout& layout = file.layout();
  std::uint64_t reached = layout.data_start;
  for (const StoredTensor& tensor : layout.tensors) {
    if (layout.data_start + tensor.begin != reached) complain("a hole or an overlap was accepted");
    if (bytes_of(tensor) != tensor.bytes()) complain("a wrong size was accepted");
    reached = layout.data_start + tensor.end;
    std::string bytes(tensor.bytes(), '\0');
    file.read(tensor, std::as_writable_bytes(std::span(bytes)));
  }
  if (reached != size) complain("trailing bytes were accepted");
  const std::string copy = written(layout.tensors, layout.metadata);
  fuzz::TextDisk disk;
  disk.put("again", copy);
  const SafetensorsFile again(disk, "again");
  require_tensors("again", again.layout(), {layout.tensors.begin(), layout.tensors.end()});
  if (again.layout().metadata != layout.metadata) complain("the metadata changed on the way");
}

/// A number as a header may hold it, with or without white space around.
std::string spaced(std::uint64_t number, Random& random) {
  return one_in(random, 20) ? say(" ", number, "\n") : say(number);
}

std::string tensor_text(const StoredTensor& tensor, Random& random) {
  std::string shape;
  for (const std::uint64_t extent : tensor.shape) {
    shape += say(shape.empty() ? "" : ",", spaced(extent, random));
  }
  std::vector<std::string> members = {say("\"dtype\":\"", tensor.type->word, "\""),
                                      say("\"shape\":[", shape, "]"),
                                      say("\"data_offsets\":[",
                                          spaced(tensor.begin, random),
                                          ",",
                                          spaced(tensor.end, random),
                                          "]")};
  std::shuffle(members.begin(), members.end(), random);
  return say("{", members[0], ",", members[1], ",", members[2], "}");
}

/// The tensors get their places here; the header names them in any order.
std::string file_of(SafetensorsLayout& layout, Random& random) {
  std::vector<std::string> members;
  std::uint64_t reached = 0;
  for (StoredTensor& tensor : layout.tensors) {
    tensor.begin = reached;
    reached = tensor.end = reached + bytes_of(tensor);
    members.push_back(say(json_string(tensor.name), ":", tensor_text(tensor, random)));
  }
  if (!layout.metadata.empty()) {
    std::string entries;
    for (const auto& [key, value] : layout.metadata) {
      entries += say(entries.empty() ? "" : ",", json_string(key), ":", json_string(value));
    }
    members.push_back(say("\"__metadata__\":{", entries, "}"));
  }
  std::shuffle(members.begin(), members.end(), random);
  std::string header = "{";
  for (const std::string& member : members) header += say(header.size() > 1 ? "," : "", member);
  header += say("}", std::string(random() % 9, ' '));
  const std::uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(reached, 'd');
}

StoredTensor some_tensor(Random& random, std::size_t number) {
  StoredTensor tensor;
  tensor.name = say(number, one_in(random, 4) ? fuzz::some_text(random) : "w");
  tensor.type = find_stored_type(one_of(kWords, random));
  tensor.shape = {4};  // whole bytes, also of the types that have 4 or 6 bits
  for (auto rank = random() % 4; rank > 0; --rank) tensor.shape.push_back(random() % 4);
  return tensor;
}

void change_layout(SafetensorsLayout& layout, Random& random) {
  std::vector<StoredTensor>& tensors = layout.tensors;
  constexpr std::size_t kMany = 6;  // small files are read faster
  if (tensors.size() > kMany) tensors.resize(1);
  const auto choice = tensors.empty() ? 0 : random() % 6;
  if (choice == 0) tensors.push_back(some_tensor(random, tensors.size() + random() % 1000));
  if (tensors.empty()) return;
  StoredTensor& tensor = tensors[random() % tensors.size()];
  if (choice == 1) tensor.type = find_stored_type(one_of(kWords, random));
  if (choice == 2) tensor.shape = some_tensor(random, 0).shape;
  if (choice == 3) tensor.name = say(random() % 1000, fuzz::some_text(random));
  if (choice == 4 && layout.metadata.size() > kMany) layout.metadata.clear();
  if (choice == 4) layout.metadata[fuzz::some_text(random)] = fuzz::some_text(random);
  if (choice == 5) tensors.erase(tensors.begin());
}

std::optional<SafetensorsLayout> layout_of(std::string_view text) {
  fuzz::TextDisk disk;
  disk.put("x", text);
  try {
    return SafetensorsFile(disk, "x").layout();
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// A sound file: the given one with changes, or a fresh one.
std::string sound_file(std::string_view text, Random& random) {
  SafetensorsLayout layout = layout_of(text).value_or(SafetensorsLayout{});
  for (auto changes = 1 + random() % 3; changes > 0; --changes) change_layout(layout, random);
  try {
    return file_of(layout, random);
  } catch (const RequestError&) {  // no whole number of bytes
    return std::string(text);
  }
}

}  // namespace
}  // namespace norma::io

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace norma::io;  // NOLINT(google-build-using-namespace)
  static norma::fuzz::Counts counts;
  ++counts.inputs;
  norma::fuzz::TextDisk disk;
  disk.put("x", norma::fuzz::text_of(data, size));
  std::optional<SafetensorsFile> file;
  try {
    file.emplace(disk, "x");
  } catch (const norma::Error& error) {
    norma::fuzz::require_utf8(error);
    return 0;
  }
  ++counts.accepted;
  try {
    check_accepted(*file, size);
  } catch (const norma::Error& error) {
    complain(error.what());
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data,
                                               std::size_t size,
                                               std::size_t most,
                                               unsigned seed) {
  using namespace norma;  // NOLINT(google-build-using-namespace)
  fuzz::Random random(seed);
  const auto choice = random() % 8;
  if (choice == 0) return LLVMFuzzerMutate(data, size, most);
  std::string text(fuzz::text_of(data, size));
  std::uint64_t length = 0;
  if (size >= 8) std::memcpy(&length, data, 8);
  if (choice <= 4 || size < 8 || length > size - 8) {
    return fuzz::hand_over(io::sound_file(text, random), data, most);
  }
  std::string header = text.substr(8, length);
  const std::string values = text.substr(8 + length);
  for (auto changes = 1 + random() % 2; changes > 0; --changes) fuzz::change_token(header, random);
  length = header.size();
  std::memcpy(text.data(), &length, 8);
  return fuzz::hand_over(text.substr(0, 8) + header + values, data, most);
}
