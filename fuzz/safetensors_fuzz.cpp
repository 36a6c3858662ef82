// libFuzzer target of the safetensors reader. Mutating bytes alone hardly ever gives a file that is
// accepted, so the mutator also makes sound files and changes single tokens of a header, and sets
// the length prefix right. Usage: build/fuzz/bin/fuzz_safetensors -max_len=4096 -max_total_time=60
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "norma/base/text.h"
#include "norma/io/safetensors.h"
#include "norma/io/strict_json.h"
#include "tests/support/memory_disk.h"

// The names of these three are libFuzzer's.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace norma::io {
namespace {

using Random = std::minstd_rand;

constexpr const char* kTokens[] = {"0",
                                   "1",
                                   "2",
                                   "8",
                                   "255",
                                   "4294967296",
                                   "281474976710655",
                                   "281474976710656",
                                   "9223372036854775808",
                                   "18446744073709551615",
                                   "18446744073709551616",
                                   "-0",
                                   "-1",
                                   "01",
                                   "1e3",
                                   "1.0",
                                   "null",
                                   "true",
                                   "[]",
                                   "{}",
                                   "[0,0]",
                                   "\"F32\"",
                                   "\"F4\"",
                                   "\"F6_E2M3\"",
                                   "\"U8\"",
                                   "\"C64\"",
                                   "\"F33\"",
                                   "\"dtype\"",
                                   "\"shape\"",
                                   "\"data_offsets\"",
                                   "\"__metadata__\"",
                                   "\"\"",
                                   "\"\\u0000\"",
                                   "\"\\ud800\"",
                                   "\"a\"",
                                   ",",
                                   ":",
                                   "[",
                                   "]",
                                   "{",
                                   "}",
                                   " ",
                                   "\xc0\x80",
                                   "NaN"};
constexpr const char* kWords[] = {"F64", "F32", "BF16", "U8", "F4", "F6_E3M2", "C64", "BOOL"};

class StringSink final : public ByteSink {
 public:
  void write(Bytes bytes) override {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  std::string text;
};

std::string file_of(const std::vector<StoredTensor>& tensors, const Metadata& metadata) {
  StringSink sink;
  SafetensorsWriter writer(sink, {tensors.begin(), tensors.end()}, metadata);
  for (const StoredTensor& tensor : writer.order()) {
    const std::string data(tensor.bytes(), 'd');
    writer.write(tensor.name, std::as_bytes(std::span(data)));
  }
  writer.finish();
  return sink.text;
}

std::string sound_file(Random& random) {
  std::vector<StoredTensor> tensors(random() % 5);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].name = say(i, random() % 4 == 0 ? std::string(random() % 90, 'n') + "γ" : "w");
    tensors[i].type = find_stored_type(kWords[random() % std::size(kWords)]);
    tensors[i].shape = {4};
    for (auto rank = random() % 3; rank > 0; --rank) tensors[i].shape.push_back(random() % 4);
  }
  Metadata metadata;
  for (auto entries = random() % 3; entries > 0; --entries) metadata[say("k", entries)] = "v\n";
  return file_of(tensors, metadata);
}

// Where the tokens of a header begin: strings, numbers, and single marks.
std::vector<std::size_t> token_starts(const std::string& header) {
  std::vector<std::size_t> starts;
  for (std::size_t at = 0; at < header.size();) {
    starts.push_back(at);
    const bool quoted = header[at] == '"';
    const std::size_t end =
        quoted ? header.find('"', at + 1) : header.find_first_not_of("0123456789", at);
    at = end == std::string::npos ? header.size() : std::max(end + (quoted ? 1 : 0), at + 1);
  }
  return starts;
}

// Replaces, removes, doubles or inserts one token.
void change_token(std::string& header, Random& random) {
  const std::vector<std::size_t> starts = token_starts(header);
  if (starts.empty()) return;
  const std::size_t pick = random() % starts.size();
  const std::size_t begin = starts[pick];
  const std::size_t end = pick + 1 < starts.size() ? starts[pick + 1] : header.size();
  const std::string own = header.substr(begin, end - begin);
  const std::string other = kTokens[random() % std::size(kTokens)];
  switch (random() % 4) {
    case 0:
      header.replace(begin, end - begin, other);
      break;
    case 1:
      header.erase(begin, end - begin);
      break;
    case 2:
      header.insert(begin, own);
      break;
    default:
      header.insert(begin, other);
  }
}

void complain(const char* what) {
  std::fprintf(stderr, "safetensors_fuzz: %s\n", what);
  std::abort();
}

// What holds of every file that the reader accepts.
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
  test::MemoryDisk disk;
  disk.put("again", file_of(layout.tensors, layout.metadata));
  const SafetensorsFile again(disk, "again");
  require_tensors("again", again.layout(), {layout.tensors.begin(), layout.tensors.end()});
  if (again.layout().metadata != layout.metadata) complain("the metadata changed on the way");
}

struct Counts {
  long inputs = 0;
  long accepted = 0;
  ~Counts() { std::fprintf(stderr, "accepted %ld of %ld inputs\n", accepted, inputs); }
};

}  // namespace
}  // namespace norma::io

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace norma::io;  // NOLINT(google-build-using-namespace)
  static Counts counts;
  ++counts.inputs;
  norma::test::MemoryDisk disk;
  disk.put("x", {reinterpret_cast<const char*>(data), size});
  try {
    const SafetensorsFile file(disk, "x");
    ++counts.accepted;
    check_accepted(file, size);
  } catch (const norma::RequestError& error) {
    complain(error.what());  // an accepted file could not be written again
  } catch (const norma::Error& error) {
    if (first_bad_utf8(error.what()) != std::string_view::npos) complain("a sentence is not UTF-8");
  }
  return 0;
}

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data,
                                               std::size_t size,
                                               std::size_t most,
                                               unsigned seed) {
  using namespace norma::io;  // NOLINT(google-build-using-namespace)
  Random random(seed);
  const auto choice = random() % 8;
  if (choice == 0) return LLVMFuzzerMutate(data, size, most);
  std::string text(reinterpret_cast<const char*>(data), size);
  std::uint64_t length = 0;
  if (size >= 8) std::memcpy(&length, data, 8);
  if (choice <= 3 || size < 8 || length > size - 8) {
    text = sound_file(random);
  } else {
    std::string header = text.substr(8, length);
    const std::string values = text.substr(8 + length);
    for (auto changes = 1 + random() % 2; changes > 0; --changes) change_token(header, random);
    length = header.size();
    text.replace(8, text.npos, header + values);
    std::memcpy(text.data(), &length, 8);
  }
  if (text.size() > most) text.resize(most);
  std::copy(text.begin(), text.end(), data);
  return text.size();
}
