// libFuzzer target of the readers of token files: dataset.json, llm.c's shards, nanoGPT's files.
// The first byte of an input says which; the mutator makes sound files of each kind and changes
// single words, counts and digests of them.
#include <cstring>

#include "fuzz/mutate.h"
#include "fuzz/target.h"
#include "fuzz/text_disk.h"

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/data/load.h"
#include "norma/io/digest.h"
#include "norma/io/strict_json.h"

namespace norma {
namespace {

using fuzz::complain;
using fuzz::one_in;
using fuzz::Random;

constexpr Index kVocab = 1000;
constexpr std::size_t kHeaderBytes = 1024;
constexpr std::string_view kTokens = "{\"vocabulary\": \"of the fuzzer\"}";
enum class Kind : std::uint8_t { info, llmc, nanogpt };
constexpr unsigned kKinds = 3;

std::string ids(Random& random, std::size_t count, std::size_t width) {
  std::string bytes;
  const bool sound = !one_in(random, 6);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t id = random() % (sound ? kVocab : 70000);
    bytes.append(reinterpret_cast<const char*>(&id), width);
  }
  return bytes;
}

std::string llmc_header(bool wide, std::int32_t count) {
  std::string header(kHeaderBytes, '\0');
  const std::int32_t words[] = {wide ? 20240801 : 20240520, wide ? 7 : 1, count};
  std::memcpy(header.data(), words, sizeof words);
  return header;
}

std::string llmc_file(Random& random) {
  const bool wide = one_in(random, 3);
  const auto count = static_cast<std::int32_t>(1 + random() % 60);
  return llmc_header(wide, count) + ids(random, static_cast<std::size_t>(count), wide ? 4 : 2);
}

/// The entry of a file in dataset.json.
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
  static const io::ManifestFile kTokenizerEntry = entry_of(kTokens);
  static const io::ManifestFile kTrainEntry = entry_of(fixed_ids(100));
  static const io::ManifestFile kValEntry = entry_of(fixed_ids(10));
  info.tokenizer_file = kTokenizerEntry;
  info.train = {.tokens = 100, .documents = random() % 9, .text_bytes = random(), .file = {}};
  info.train.file = kTrainEntry;
  info.val = {.tokens = 10, .documents = 1, .text_bytes = random() % 99, .file = {}};
  info.val.file = kValEntry;
  info.seed = random();
  info.val_fraction = "0.1";
  info.licence = random() % 2 == 0 ? "" : "CC0";
  for (auto count = random() % 3; count > 0; --count) info.inputs.push_back(say("in", count));
  return text_of(info);
}

/// The files of a folder; those that are the same in every input are made once.
void put_input(fuzz::TextDisk& disk, Kind kind, std::string_view file) {
  static const std::string kTrain = fixed_ids(100);
  static const std::string kVal = fixed_ids(10);
  if (kind == Kind::info) {
    disk.put("d/dataset.json", file);
    disk.put("d/train.bin", kTrain);
    disk.put("d/val.bin", kVal);
    disk.put("d/tokenizer.json", kTokens);
  } else if (kind == Kind::llmc) {
    disk.put("d/x_train_1.bin", file);
    disk.put("d/x_val_1.bin", file);
  } else {
    disk.put("d/train.bin", file);
    disk.put("d/val.bin", kVal);
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
  if (kind == Kind::info && text_of(*set.info) != file) complain("dataset.json has a second form");
  if (kind == Kind::llmc && file.size() < kHeaderBytes) complain("half a header was accepted");
}

/// A whole input: the byte that says its kind, and a sound file.
std::string sound_input(Random& random) {
  const auto kind = static_cast<Kind>(random() % kKinds);
  const std::string file = kind == Kind::info   ? info_file(random)
                           : kind == Kind::llmc ? llmc_file(random)
                                                : ids(random, 1 + random() % 100, 2);
  return static_cast<char>(kind) + file;
}

/// Other numbers in the header of an llm.c file, or another number of ids behind it.
void change_llmc(std::string& file, Random& random) {
  constexpr std::int32_t kNumbers[] = {
      0, 1, 7, -1, 20240520, 20240522, 20240801, 2147483647, 999, -2147483647};
  if (file.size() >= kHeaderBytes && one_in(random, 2)) {
    const auto count = static_cast<std::int32_t>(random() % 40);
    std::memcpy(file.data() + 8, &count, sizeof count);
    const bool wide = file.substr(0, 4) == llmc_header(true, 0).substr(0, 4);
    file =
        file.substr(0, kHeaderBytes) + ids(random, static_cast<std::size_t>(count), wide ? 4 : 2);
  } else if (file.size() >= 12) {
    std::memcpy(file.data() + 4 * (random() % 3), &fuzz::one_of(kNumbers, random), 4);
  }
}

}  // namespace
}  // namespace norma

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace norma;  // NOLINT(google-build-using-namespace)
  static fuzz::Counts counts;
  ++counts.inputs;
  if (size == 0) return 0;
  const auto kind = static_cast<Kind>(data[0] % kKinds);
  const std::string_view file = fuzz::text_of(data + 1, size - 1);
  fuzz::TextDisk disk;
  put_input(disk, kind, file);
  try {
    const Dataset set = open_dataset({.path = "d"}, kVocab, disk);
    ++counts.accepted;
    check_accepted(set, file, kind);
  } catch (const Error& error) {
    fuzz::require_utf8(error);
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data,
                                               std::size_t size,
                                               std::size_t most,
                                               unsigned seed) {
  using namespace norma;  // NOLINT(google-build-using-namespace)
  Random random(seed);
  const auto choice = random() % 8;
  if (choice <= 2 || size < 2) return fuzz::hand_over(sound_input(random), data, most);
  const auto kind = static_cast<Kind>(data[0] % kKinds);
  if (choice == 3 || kind == Kind::nanogpt) return LLVMFuzzerMutate(data, size, most);
  std::string file(fuzz::text_of(data + 1, size - 1));
  if (kind == Kind::info) {
    fuzz::change_sealed(file, random);
  } else {
    change_llmc(file, random);
  }
  return fuzz::hand_over(static_cast<char>(data[0]) + file, data, most);
}
