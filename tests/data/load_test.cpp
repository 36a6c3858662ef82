// data.path in all its forms, and battery D1: what damaged data get.
#include "norma/data/load.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/data/build.h"
#include "norma/io/seal.h"
#include "norma/text/byte_tokenizer.h"
#include "tests/support/expect.h"
#include "tests/support/pass_through_disk.h"
#include "tests/support/temp_folder.h"

namespace norma {
namespace {

namespace fs = std::filesystem;
using test::throws;

constexpr Index kVocab = 300;  // of the model

void put(const fs::path& path, std::string_view contents) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << contents;
}

std::string get(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class Id>
std::string ids(Id first, std::size_t count) {
  std::vector<Id> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<Id>(first + i % 97);
  return raw(values);
}

std::string header(std::int32_t magic, std::int32_t version, std::int32_t count) {
  std::vector<std::int32_t> words(256);
  words[0] = magic;
  words[1] = version;
  words[2] = count;
  return raw(words);
}

void make_nanogpt(const fs::path& folder) {
  put(folder / "train.bin", ids<std::uint16_t>(3, 500));
  put(folder / "val.bin", ids<std::uint16_t>(50, 60));
}

void make_llmc(const fs::path& folder) {
  put(folder / "a_train_000001.bin", header(20240520, 1, 100) + ids<std::uint16_t>(0, 100));
  put(folder / "a_train_000002.bin", header(20240801, 7, 80) + ids<std::uint32_t>(100, 80));
  put(folder / "a_val_000000.bin", header(20240520, 1, 40) + ids<std::uint16_t>(7, 40));
}

void make_norma(const fs::path& folder) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += say("Document ", i, ".\n<|endoftext|>\n");
  put(folder.string() + ".txt", text);
  BuildSpec spec;
  spec.inputs = {folder.string() + ".txt"};
  spec.out = folder.string();
  spec.licence = "public domain";
  build_dataset(spec, text::ByteTokenizer(), [](const BuildProgress&) {});
}

class Load : public testing::Test {
 protected:
  fs::path at(const std::string& name) const { return folder_ / name; }
  TokenData load(const std::string& name, Index vocab = kVocab) const {
    return load_data({.path = at(name).string()}, vocab);
  }
  test::TempFolder folder_;
};

TEST_F(Load, ATextIsItsBytes) {
  const std::string text(1000, 'a');
  put(at("t.txt"), text + "bcd");
  const TokenData data = load("t.txt");
  EXPECT_EQ(data.train.count, 903);
  EXPECT_EQ(data.val.count, 100);
  EXPECT_EQ(data.val[99], 'd');
  EXPECT_EQ(data.bytes_per_token, 1);
  EXPECT_EQ(data.vocab, 256);
  EXPECT_EQ(data.held_bytes, 1003U);
  EXPECT_EQ(data.tokenizer, text::ByteTokenizer().json());
  EXPECT_EQ(data.description, "t.txt, bytes");
}

TEST_F(Load, NanoGptsFilesAreTwoByteIds) {
  make_nanogpt(at("n"));
  const TokenData data = load("n");
  EXPECT_EQ(data.train.count, 500);
  EXPECT_EQ(data.train[98], 4);
  EXPECT_EQ(data.val[59], 109);
  EXPECT_EQ(data.vocab, 110) << "the largest id and one";
  EXPECT_EQ(data.bytes_per_token, 0) << "nobody knows";
  put(at("n/meta.json"), R"({"vocab_size": 200, "itos": {"0": "a"}})");
  EXPECT_EQ(load("n").vocab, 200);
  put(at("n/tokenizer.json"), text::ByteTokenizer().json());
  EXPECT_EQ(load("n").tokenizer, text::ByteTokenizer().json());
}

TEST_F(Load, LlmcsShardsAreASplitTogether) {
  make_llmc(at("l"));
  const TokenData data = load("l");
  ASSERT_EQ(data.train.shards.size(), 2U);
  EXPECT_EQ(data.train.count, 180);
  EXPECT_EQ(data.train[99], 2);
  EXPECT_EQ(data.train[100], 100);
  EXPECT_EQ(data.val.count, 40);
}

TEST_F(Load, TheDigestKnowsEveryIdTheSplitAndTheTokenizer) {
  make_nanogpt(at("n"));
  const std::string before = load("n").digest;
  EXPECT_EQ(load("n").digest, before);
  std::string train = get(at("n/train.bin"));
  train[100] ^= 1;
  put(at("n/train.bin"), train);
  EXPECT_NE(load("n").digest, before);
  train[100] ^= 1;
  put(at("n/train.bin"), train);
  EXPECT_EQ(load("n").digest, before);
  put(at("n/tokenizer.json"), text::ByteTokenizer().json());
  EXPECT_NE(load("n").digest, before);
  put(at("t.txt"), std::string(500, 'a'));
  EXPECT_NE(load_data({.path = at("t.txt").string(), .val_fraction = 0.2}, 256).digest,
            load_data({.path = at("t.txt").string(), .val_fraction = 0.3}, 256).digest);
}

TEST_F(Load, TheFormatCanBeSaid) {
  make_nanogpt(at("both"));
  make_llmc(at("both"));
  const auto load_as = [&](DataFormat format) {
    return load_data({.path = at("both").string(), .format = format}, kVocab);
  };
  EXPECT_TRUE(throws<RequestError>([&] { load("both"); }, {"data.format=nanogpt", "=llmc"}));
  EXPECT_EQ(load_as(DataFormat::nanogpt).train.count, 500);
  EXPECT_EQ(load_as(DataFormat::llmc).train.count, 180);
}

/// Two raw ids that happen to spell the magic number.
TEST_F(Load, AnAmbiguousFileAsksForItsFormat) {
  make_nanogpt(at("n"));
  const std::int32_t magic = 20240520;
  std::string train = get(at("n/train.bin"));
  std::memcpy(train.data(), &magic, sizeof magic);
  put(at("n/train.bin"), train);
  EXPECT_TRUE(throws<RequestError>([&] { load("n", 65536); },
                                   {"begins like a shard of llm.c", "data.format=nanogpt"}));
  const DataSpec said{.path = at("n").string(), .format = DataFormat::nanogpt};
  EXPECT_EQ(load_data(said, 65536).train.count, 500);
}

/// Hands out the files of a sound folder in place of a damaged one: whatever looks only through it
/// sees no damage.
class BlindDisk final : public test::PassThroughDisk {
 public:
  BlindDisk(std::string damaged, std::string sound)
      : PassThroughDisk(io::real_file_system()),
        damaged_(std::move(damaged)),
        sound_(std::move(sound)) {}
  io::Answer open(const std::string& path, io::OpenAs how) override {
    return PassThroughDisk::open(moved(path), how);
  }
  io::Answer list(const std::string& folder, std::vector<std::string>& names) override {
    return PassThroughDisk::list(moved(folder), names);
  }

 private:
  std::string moved(const std::string& path) const {
    return path.starts_with(damaged_) ? sound_ + path.substr(damaged_.size()) : path;
  }
  std::string damaged_;
  std::string sound_;
};

struct Damage {
  const char* what;
  void (*make)(const fs::path&);
  std::function<void(const fs::path&)> spoil;
  std::vector<std::string> sentence;  // parts of it
};

void cut(const fs::path& path, std::size_t bytes) { put(path, get(path).substr(0, bytes)); }
void grow(const fs::path& path, std::size_t bytes) { put(path, get(path) + std::string(bytes, 1)); }
void set_word(const fs::path& path, std::size_t word, std::int32_t value) {
  std::string text = get(path);
  std::memcpy(text.data() + 4 * word, &value, sizeof value);
  put(path, text);
}
void set_id(const fs::path& path, std::size_t byte, std::uint16_t value) {
  std::string text = get(path);
  std::memcpy(text.data() + byte, &value, sizeof value);
  put(path, text);
}
void flip(const fs::path& path, std::size_t byte) {
  std::string text = get(path);
  text[byte] = static_cast<char>(text[byte] ^ 1);
  put(path, text);
}
/// Changes a word of dataset.json and seals it again, as somebody who knows how would.
void forge(const fs::path& folder, const std::string& from, const std::string& to) {
  std::string text = get(folder / "dataset.json");
  text.resize(text.rfind(",\n  \"digest\""));
  text.replace(text.find(from), from.size(), to);
  put(folder / "dataset.json", io::sealed(text));
}
void make_pipe(const fs::path& path) {
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
}
void make_folder(const fs::path& path) {
  fs::remove(path);
  fs::create_directory(path);
}

// clang-format off
std::vector<Damage> damages() {
  const auto at = [](const char* name, auto change) {
    return [=](const fs::path& folder) { change(folder / name); };
  };
  return {
      {"llm.c: wrong magic", make_llmc, at("a_train_000001.bin", [](const fs::path& p) { set_word(p, 0, 20240519); }),
       {"a_train_000001.bin", "begins with the number 20240519", "20240520 or 20240801"}},
      {"llm.c: an evaluation set", make_llmc, at("a_val_000000.bin", [](const fs::path& p) { set_word(p, 0, 20240522); }),
       {"a_val_000000.bin", "an evaluation set of llm.c"}},
      {"llm.c: wrong version", make_llmc, at("a_train_000002.bin", [](const fs::path& p) { set_word(p, 1, 8); }),
       {"a_train_000002.bin", "version 8 at byte 4", "only version 7"}},
      {"llm.c: count too large", make_llmc, at("a_train_000001.bin", [](const fs::path& p) { set_word(p, 2, 101); }),
       {"has 1224 bytes", "counts 101 ids", "1226 bytes"}},
      {"llm.c: count too small", make_llmc, at("a_train_000001.bin", [](const fs::path& p) { set_word(p, 2, 99); }),
       {"has 1224 bytes", "counts 99 ids"}},
      {"llm.c: count negative", make_llmc, at("a_train_000001.bin", [](const fs::path& p) { set_word(p, 2, -1); }),
       {"at byte 8 counts -1 ids"}},
      {"llm.c: count at the 2 GiB edge", make_llmc, at("a_train_000001.bin", [](const fs::path& p) { set_word(p, 2, 2147483647); }),
       {"counts 2147483647 ids", "4294968318 bytes"}},
      {"llm.c: no ids", make_llmc, at("a_train_000001.bin", [](const fs::path& p) { set_word(p, 2, 0); cut(p, 1024); }),
       {"counts 0 ids"}},
      {"llm.c: half a header", make_llmc, at("a_train_000001.bin", [](const fs::path& p) { cut(p, 1000); }),
       {"has 1000 bytes", "header", "1024"}},
      {"llm.c: odd size", make_llmc, at("a_train_000001.bin", [](const fs::path& p) { grow(p, 1); }),
       {"has 1225 bytes", "1224 bytes"}},
      {"llm.c: cut off", make_llmc, at("a_train_000002.bin", [](const fs::path& p) { cut(p, 1200); }),
       {"a_train_000002.bin has 1200 bytes", "1344 bytes"}},
      {"llm.c: empty", make_llmc, at("a_val_000000.bin", [](const fs::path& p) { put(p, ""); }),
       {"a_val_000000.bin is empty"}},
      {"llm.c: an id of the vocabulary's size", make_llmc, at("a_train_000001.bin", [](const fs::path& p) { set_id(p, 1024 + 2 * 55, 300); }),
       {"id number 55 (byte 1134) is 300", "model.vocab = 300"}},
      {"llm.c: an id beyond 2^31", make_llmc, at("a_train_000002.bin", [](const fs::path& p) { set_word(p, 256 + 9, -5); }),
       {"id number 9 (byte 1060) is 4294967291"}},
      {"llm.c: no validation shard", make_llmc, at("a_val_000000.bin", [](const fs::path& p) { fs::remove(p); }),
       {"no *_val_*.bin"}},
      {"nanoGPT: odd size", make_nanogpt, at("train.bin", [](const fs::path& p) { grow(p, 1); }),
       {"train.bin has 1001 bytes", "no whole number of 2-byte ids"}},
      {"nanoGPT: empty", make_nanogpt, at("train.bin", [](const fs::path& p) { put(p, ""); }),
       {"train.bin is empty"}},
      {"nanoGPT: an id of the vocabulary's size", make_nanogpt, at("val.bin", [](const fs::path& p) { set_id(p, 40, 300); }),
       {"val.bin: id number 20 (byte 40) is 300", "0 to 299"}},
      {"nanoGPT: no val.bin", make_nanogpt, at("val.bin", [](const fs::path& p) { fs::remove(p); }),
       {"val.bin", "No such file"}},
      {"nanoGPT: val.bin is a folder", make_nanogpt, at("val.bin", make_folder), {"val.bin is not a regular file"}},
      {"nanoGPT: train.bin is a pipe", make_nanogpt, at("train.bin", make_pipe), {"train.bin is not a regular file"}},
      {"nanoGPT: meta.json with a small vocabulary", make_nanogpt, at("meta.json", [](const fs::path& p) { put(p, R"({"vocab_size": 60})"); }),
       {"train.bin: id number 57 (byte 114) is 60", "vocab_size in meta.json = 60"}},
      {"nanoGPT: meta.json without a vocabulary", make_nanogpt, at("meta.json", [](const fs::path& p) { put(p, R"({"vocab_size": "60"})"); }),
       {"meta.json", "vocab_size must be a whole number"}},
      {"norma: cut off", make_norma, at("train.bin", [](const fs::path& p) { cut(p, 100); }),
       {"train.bin has 100 bytes; dataset.json says"}},
      {"norma: grown", make_norma, at("val.bin", [](const fs::path& p) { grow(p, 2); }),
       {"val.bin has", "dataset.json says"}},
      {"norma: empty", make_norma, at("train.bin", [](const fs::path& p) { put(p, ""); }),
       {"train.bin has 0 bytes"}},
      {"norma: a flipped bit of train.bin", make_norma, at("train.bin", [](const fs::path& p) { flip(p, 101); }),
       {"train.bin was changed: its digest is"}},
      {"norma: a flipped bit of val.bin", make_norma, at("val.bin", [](const fs::path& p) { flip(p, 0); }),
       {"val.bin was changed"}},
      {"norma: a flipped bit of tokenizer.json", make_norma, at("tokenizer.json", [](const fs::path& p) { flip(p, 1000); }),
       {"tokenizer.json was changed"}},
      {"norma: a flipped bit of dataset.json", make_norma, at("dataset.json", [](const fs::path& p) { flip(p, get(p).find("tokens\": ") + 10); }),
       {"dataset.json does not match its own digest"}},
      {"norma: dataset.json cut off", make_norma, at("dataset.json", [](const fs::path& p) { cut(p, 200); }),
       {"dataset.json: JSON byte 200"}},
      {"norma: dataset.json empty", make_norma, at("dataset.json", [](const fs::path& p) { put(p, ""); }),
       {"dataset.json: JSON byte 0"}},
      {"norma: dataset.json of a later version", make_norma, [](const fs::path& p) { forge(p, "\"version\": 1", "\"version\": 2"); },
       {"dataset.json", "reads version 1, found version 2"}},
      {"norma: forged width", make_norma, [](const fs::path& p) { forge(p, "\"token_bytes\": 2", "\"token_bytes\": 4"); },
       {"dataset.json", "tokens of 4 bytes are not the"}},
      {"norma: forged vocabulary", make_norma, [](const fs::path& p) { forge(p, "\"vocab\": 256", "\"vocab\": 100"); },
       {"train.bin: id number", "the vocabulary in dataset.json = 100"}},
      {"norma: forged count", make_norma, [](const fs::path& p) { forge(p, "{\"tokens\": ", "{\"tokens\": 9"); },
       {"dataset.json", "tokens of 2 bytes are not the"}},
      {"norma: no tokenizer.json", make_norma, at("tokenizer.json", [](const fs::path& p) { fs::remove(p); }),
       {"tokenizer.json", "No such file"}},
  };
}
// clang-format on

/// What load_data says of a folder; empty: it took it.
std::string verdict(const fs::path& folder, io::FileSystem& disk) {
  try {
    load_data({.path = folder.string()}, kVocab, disk);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(Load, EveryDamageGetsItsSentence) {
  int number = 0;
  for (const Damage& damage : damages()) {
    const fs::path sound = at(say("sound", ++number));
    const fs::path folder = at(say("set", number));
    damage.make(sound);
    damage.make(folder);
    ASSERT_EQ(verdict(folder, io::real_file_system()), "") << damage.what;
    damage.spoil(folder);
    std::string found = verdict(folder, io::real_file_system());
    for (const std::string& part : damage.sentence) {
      EXPECT_NE(found.find(part), std::string::npos)
          << damage.what << ": \"" << part << "\" is not in: " << found;
    }
    // The planted twin: where the damage cannot be seen, the folder is taken, so a loader that did
    // not look would turn this table red.
    BlindDisk blind(folder.string(), sound.string());
    EXPECT_EQ(verdict(folder, blind), "") << damage.what;
    const std::string path = folder.string() + "/";
    for (std::size_t place = found.find(path); place != std::string::npos;
         place = found.find(path)) {
      found.replace(place, path.size(), "data/");
    }
    std::printf("| %s | %s |\n", damage.what, found.c_str());
  }
  std::printf("%d damaged data sets, every one refused\n", number);
}

TEST_F(Load, EveryFlippedBitAndEveryCutOfADataSetIsFound) {
  make_norma(at("d"));
  int tried = 0;
  for (const char* name : {"dataset.json", "train.bin", "val.bin", "tokenizer.json"}) {
    const std::string sound = get(at("d") / name);
    for (std::size_t byte = 0; byte < sound.size(); byte += 1 + sound.size() / 50) {
      std::string spoilt = sound;
      spoilt[byte] = static_cast<char>(spoilt[byte] ^ (1 << (byte % 8)));
      for (const std::string& contents : {spoilt, sound.substr(0, byte)}) {
        put(at("d") / name, contents);
        EXPECT_NE(verdict(at("d"), io::real_file_system()), "") << name << " at " << byte;
        ++tried;
      }
    }
    put(at("d") / name, sound);
  }
  EXPECT_EQ(verdict(at("d"), io::real_file_system()), "");
  std::printf("%d of %d flips and cuts found\n", tried, tried);
}

TEST_F(Load, WrongPathsAreRequests) {
  const auto refused = [&](const std::string& name, std::initializer_list<std::string_view> parts) {
    return throws<RequestError>([&] { load(name); }, parts);
  };
  EXPECT_TRUE(throws<RequestError>([] { load_data({}, 1); }, {"data.path is not set"}));
  EXPECT_TRUE(refused("none", {"there is no file or folder", "none"}));
  fs::create_directory(at("bare"));
  EXPECT_TRUE(refused("bare", {"no dataset.json", "norma data text"}));
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(refused("pipe", {"is something else"}));
  put(at("short.txt"), "abc");
  EXPECT_TRUE(refused("short.txt", {"3 bytes", "at least 64"}));
  put(at("x.bin"), std::string(100, 'a'));
  EXPECT_TRUE(refused("x.bin", {"looks like a file of token ids", "data.format=text"}));
  make_norma(at("d"));
  EXPECT_TRUE(
      throws<RequestError>([&] { load("d", 255); }, {"256 token ids", "model.vocab is 255"}));
  EXPECT_TRUE(throws<RequestError>(
      [&] { load_data({.path = at("d").string(), .format = DataFormat::text}, 256); },
      {"needs a file"}));
  EXPECT_TRUE(throws<RequestError>(
      [&] { load_data({.path = at("short.txt").string(), .format = DataFormat::llmc}, 256); },
      {"data.format=llmc needs a folder"}));
}

TEST_F(Load, AnUnreadableFileIsNamed) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  make_nanogpt(at("n"));
  fs::permissions(at("n/val.bin"), fs::perms::none);
  EXPECT_TRUE(throws<Error>([&] { load("n"); }, {"val.bin", "Permission denied"}));
}

}  // namespace
}  // namespace norma
