// libFuzzer target of the readers of token files: dataset.json, llm.c's shards, nanoGPT's files.
// The first byte of an input says which; the mutator makes sound files of each kind and changes
// single words, counts and digests of them. Usage: build/fuzz/bin/fuzz_shard -max_len=4096
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/data/load.h"
#include "norma/io/digest.h"
#include "norma/io/seal.h"
#include "norma/io/strict_json.h"
#include "tests/support/memory_disk.h"

// The names of these three are libFuzzer's.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace norma {
namespace {

using Random = std::minstd_rand;

constexpr Index kVocab = 1000;
constexpr std::size_t kHeaderBytes = 1024;
constexpr std::string_view kTokens = "{\"vocabulary\": \"of the fuzzer\"}";
enum Kind : std::uint8_t { kInfo, kLlmc, kNanogpt, kKinds };

std::string ids(Random& random, std::size_t count, std::size_t width) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t id = random() % (random() % 50 == 0 ? 70000 : kVocab);
    bytes.append(reinterpret_cast<const char*>(&id), width);
  }
  return bytes;
}

std::string llmc_file(Random& random) {
  const bool wide = random() % 3 == 0;
  const auto count = static_cast<std::int32_t>(1 + random() % 60);
  std::string file(kHeaderBytes, '\0');
  const std::int32_t words[] = {wide ? 20240801 : 20240520, wide ? 7 : 1, count};
  std::memcpy(file.data(), words, sizeof words);
  return file + ids(random, static_cast<std::size_t>(count), wide ? 4 : 2);
}

io::ManifestFile entry_of(std::string_view contents) {
  return {.bytes = contents.size(),
          .digest = io::digest_of(std::as_bytes(std::span(contents))).text()};
}

/// The shards that dataset.json speaks of in every input of its kind.
std::string fixed_ids(std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) {
    const auto id = static_cast<std::uint16_t>(i * 7 % 300);
    bytes.append(reinterpret_cast<const char*>(&id), sizeof id);
  }
  return bytes;
}

std::string info_file(Random& random) {
  DatasetInfo info;
  info.tokenizer = random() % 2 == 0 ? "gpt2" : "α\n\"";
  info.fingerprint = "0123456789abcdef";
  info.vocab = 300 + random() % 3;
  info.tokenizer_file = entry_of(kTokens);
  info.train = {.tokens = 100, .documents = random() % 9, .text_bytes = random(), .file = {}};
  info.train.file = entry_of(fixed_ids(100));
  info.val = {.tokens = 10, .documents = 1, .text_bytes = random() % 99, .file = {}};
  info.val.file = entry_of(fixed_ids(10));
  info.seed = random();
  info.val_fraction = "0.1";
  info.licence = random() % 2 == 0 ? "" : "CC0";
  for (auto count = random() % 3; count > 0; --count) info.inputs.push_back(say("in", count));
  return text_of(info);
}

/// Changes a word or a mark of dataset.json; most of the time it is sealed again, so that the
/// checks behind the digest are reached.
void change_info(std::string& text, Random& random) {
  static const char* const kWords[] = {"0",
                                       "1",
                                       "2",
                                       "4",
                                       "99",
                                       "18446744073709551615",
                                       "-1",
                                       "{}",
                                       "[]",
                                       "\"\"",
                                       "\"vocab\"",
                                       "\"train\"",
                                       "1e3",
                                       "null"};
  const std::size_t tail = text.rfind(",\n  \"digest\"");
  if (tail == std::string::npos || tail == 0) return;
  std::string body = text.substr(0, tail);
  const std::size_t begin = random() % body.size();
  const std::size_t end = std::min(body.find_first_of(" ,:{}[]\"", begin + 1), body.size());
  body.replace(begin, end - begin, kWords[random() % std::size(kWords)]);
  text = random() % 4 == 0 ? body + text.substr(tail) : io::sealed(body);
}

void complain(const std::string& what) {
  std::fprintf(stderr, "shard_fuzz: %s\n", what.c_str());
  std::abort();
}

void put_input(test::MemoryDisk& disk, Kind kind, std::string_view file) {
  disk.make_folder("d");
  if (kind == kInfo) {
    disk.put("d/dataset.json", file);
    disk.put("d/train.bin", fixed_ids(100));
    disk.put("d/val.bin", fixed_ids(10));
    disk.put("d/tokenizer.json", kTokens);
  } else if (kind == kLlmc) {
    disk.put("d/x_train_1.bin", file);
    disk.put("d/x_val_1.bin", file);
  } else {
    disk.put("d/train.bin", file);
    disk.put("d/val.bin", fixed_ids(10));
    if (file.size() % 3 == 0) disk.put("d/meta.json", file.substr(0, file.size() / 2));
  }
}

/// What holds of everything that the loader accepts.
void check_accepted(const Dataset& set, std::string_view file, Kind kind) {
  for (const TokenView* view : {&set.data.train, &set.data.val}) {
    for (Index i = 0; i < view->count; ++i) {
      const std::int32_t id = (*view)[i];
      if (id < 0 || id >= set.data.vocab || id >= kVocab) complain("a wrong id was accepted");
    }
  }
  if (kind == kInfo && text_of(*set.info) != file) complain("dataset.json has a second form");
  if (kind == kLlmc && file.size() < kHeaderBytes) complain("half a header was accepted");
}

struct Counts {
  long inputs = 0;
  long accepted = 0;
  ~Counts() { std::fprintf(stderr, "accepted %ld of %ld inputs\n", accepted, inputs); }
};

}  // namespace
}  // namespace norma

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace norma;  // NOLINT(google-build-using-namespace)
  static Counts counts;
  if (size == 0) return 0;
  ++counts.inputs;
  const auto kind = static_cast<Kind>(data[0] % kKinds);
  const std::string_view file(reinterpret_cast<const char*>(data) + 1, size - 1);
  test::MemoryDisk disk;
  put_input(disk, kind, file);
  try {
    const Dataset set = open_dataset({.path = "d"}, kVocab, disk);
    ++counts.accepted;
    check_accepted(set, file, kind);
  } catch (const Error& error) {
    if (io::first_bad_utf8(error.what()) != std::string_view::npos) {
      complain("a sentence is not UTF-8");
    }
  }
  return 0;
}

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data,
                                               std::size_t size,
                                               std::size_t most,
                                               unsigned seed) {
  using namespace norma;  // NOLINT(google-build-using-namespace)
  Random random(seed);
  const auto choice = random() % 8;
  if (choice == 0 || most < 2) return LLVMFuzzerMutate(data, size, most);
  std::string text(reinterpret_cast<const char*>(data), size);
  const auto kind = static_cast<Kind>(size == 0 ? random() % kKinds : data[0] % kKinds);
  if (choice <= 3 || size < 2) {
    const auto made = static_cast<Kind>(random() % kKinds);
    text = std::string(1, static_cast<char>(made));
    text += made == kInfo   ? info_file(random)
            : made == kLlmc ? llmc_file(random)
                            : ids(random, 1 + random() % 100, 2);
  } else if (kind == kInfo) {
    std::string file = text.substr(1);
    change_info(file, random);
    text.replace(1, text.npos, file);
  } else if (kind == kLlmc && text.size() > 12) {
    const std::int32_t values[] = {0, 1, 7, -1, 20240520, 20240522, 20240801, 2147483647, 999};
    std::memcpy(text.data() + 1 + 4 * (random() % 3), &values[random() % std::size(values)], 4);
  } else {
    return LLVMFuzzerMutate(data, size, most);
  }
  if (text.size() > most) text.resize(most);
  std::copy(text.begin(), text.end(), data);
  return text.size();
}
