// Data sets made from texts, and read back.
#include "norma/data/build.h"

#include <cerrno>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/base/threads.h"
#include "norma/data/load.h"
#include "norma/data/split.h"
#include "norma/text/bpe_files.h"
#include "norma/text/bpe_tokenizer.h"
#include "norma/text/byte_tokenizer.h"
#include "tests/support/expect.h"
#include "tests/support/faulty_disk.h"
#include "tests/support/temp_folder.h"
#include "tests/text/tiny_merges.h"

namespace norma {
namespace {

namespace fs = std::filesystem;
using test::throws;
using text::Id;

const text::Tokenizer& tiny() {
  static const text::BpeTokenizer kTokenizer(text::read_merges("tiny", text::kTinyMerges));
  return kTokenizer;
}
const text::Tokenizer& bytes() {
  static const text::ByteTokenizer kTokenizer;
  return kTokenizer;
}

class Build : public testing::Test {
 protected:
  std::string put(const std::string& name, std::string_view contents) const {
    fs::create_directories(fs::path(folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << contents;
    return folder_ / name;
  }
  BuildSpec spec(std::vector<std::string> inputs) const {
    BuildSpec spec;
    spec.inputs = std::move(inputs);
    spec.out = folder_ / "out";
    return spec;
  }
  BuildResult build(const BuildSpec& wanted, const text::Tokenizer& tokenizer = tiny()) const {
    fs::remove_all(wanted.out);
    return build_dataset(wanted, tokenizer, [](const BuildProgress&) {});
  }
  TokenData load() const { return load_data({.path = folder_ / "out"}, 0); }
  std::vector<std::string> left() const {
    return io::list_folder(io::real_file_system(), folder_.path());
  }
  test::TempFolder folder_;
};

std::vector<Id> ids_of(const TokenView& view) {
  std::vector<Id> ids;
  for (Index i = 0; i < view.count; ++i) ids.push_back(view[i]);
  return ids;
}

struct Expected {
  std::vector<Id> train;
  std::vector<Id> val;
  std::uint64_t train_bytes = 0;
  std::uint64_t val_bytes = 0;
};

/// What the documents must become, said once more and plainly.
Expected expected(const std::vector<std::string>& documents,
                  const text::Tokenizer& tokenizer,
                  double fraction = 0.1,
                  std::uint64_t seed = 1) {
  Expected result;
  const Id end = tokenizer.special_id("<|endoftext|>");
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const bool val = is_validation(i, fraction, seed);
    std::vector<Id>& to = val ? result.val : result.train;
    const std::vector<Id> ids = tokenizer.encode(documents[i]);
    to.insert(to.end(), ids.begin(), ids.end());
    to.push_back(end >= 0 ? end : '\n');
    (val ? result.val_bytes : result.train_bytes) += documents[i].size() + (end >= 0 ? 0 : 1);
  }
  return result;
}

std::vector<std::string> some_documents(int count) {
  std::vector<std::string> documents;
  for (int i = 0; i < count; ++i) {
    std::string text = say("Document ", i, " of the set.\n");
    for (int k = 0; k < i % 7; ++k) text += say("The cat's hat, ", k * i, " times; isn't it?\n");
    documents.push_back(text);
  }
  return documents;
}

std::string joined(const std::vector<std::string>& documents) {
  std::string text;
  for (const std::string& document : documents) text += document + "<|endoftext|>\n";
  return text;
}

TEST_F(Build, EveryDocumentBecomesItsTokensAndAnEnd) {
  const std::vector<std::string> documents = some_documents(57);
  const std::string path = put("corpus.txt", joined(documents));
  for (const text::Tokenizer* tokenizer : {&tiny(), &bytes()}) {
    const BuildResult result = build(spec({path}), *tokenizer);
    const Expected want = expected(documents, *tokenizer);
    const TokenData data = load();
    EXPECT_EQ(ids_of(data.train), want.train);
    EXPECT_EQ(ids_of(data.val), want.val);
    EXPECT_EQ(result.info.train.documents + result.info.val.documents, 57U);
    EXPECT_EQ(result.info.train.text_bytes, want.train_bytes);
    EXPECT_EQ(result.info.val.text_bytes, want.val_bytes);
    EXPECT_EQ(data.vocab, tokenizer->vocab_size());
    EXPECT_EQ(data.tokenizer, tokenizer->json());
    EXPECT_DOUBLE_EQ(data.bytes_per_token,
                     static_cast<double>(want.val_bytes) / static_cast<double>(want.val.size()));
    EXPECT_EQ(data.held_bytes, 0U);
  }
}

TEST_F(Build, LinesOfJsonAndFilesOfAFolderAreDocumentsToo) {
  const std::vector<std::string> documents = some_documents(24);
  std::string lines;
  for (int i = 0; i < 12; ++i) {
    std::string escaped = documents[static_cast<std::size_t>(i)];
    for (std::size_t at = 0; (at = escaped.find('\n', at)) != std::string::npos; at += 2) {
      escaped.replace(at, 1, "\\n");
    }
    lines += say("{\"body\": \"", escaped, "\"}\n");
  }
  put("in/0.jsonl", lines);
  put("in/sub/1.md", joined({documents.begin() + 12, documents.begin() + 20}));
  put("in/sub/skipped.bin", "x");
  put("in/.hidden.txt", "x");
  for (int i = 20; i < 24; ++i) put(say("in/z", i, ".txt"), documents[static_cast<std::size_t>(i)]);
  BuildSpec wanted = spec({folder_ / "in"});
  wanted.field = "body";
  wanted.val_fraction = 0.3;
  wanted.seed = 9;
  const BuildResult result = build(wanted);
  EXPECT_EQ(result.files, 6U);
  EXPECT_EQ(result.skipped, 2U);
  const Expected want = expected(documents, tiny(), 0.3, 9);
  EXPECT_EQ(ids_of(load().train), want.train);
  EXPECT_EQ(ids_of(load().val), want.val);
}

TEST_F(Build, TheSameForAnyNumberOfThreads) {
  std::vector<std::string> documents = some_documents(40);
  std::string large;
  while (large.size() < 3000000) large += "What a long story this is, and it goes on; 1234.\n";
  documents[3] = large;
  const std::string path = put("corpus.txt", joined(documents));
  std::string digests;
  for (const int threads : {1, 2, 5}) {
    const ThreadScope scope(threads);
    const BuildResult result = build(spec({path}));
    const std::string found = result.info.train.file.digest + result.info.val.file.digest;
    if (digests.empty()) digests = found;
    EXPECT_EQ(found, digests) << threads;
  }
  EXPECT_EQ(ids_of(load().train), expected(documents, tiny()).train);
}

TEST_F(Build, OfOneDocumentTheLastTokensAreForValidation) {
  const std::string text = "One document alone, without an end. It isn't long, but long enough.";
  BuildSpec wanted = spec({put("one.txt", text)});
  wanted.val_fraction = 0.25;
  const BuildResult result = build(wanted);
  std::vector<Id> all = expected({text}, tiny()).train;
  const TokenData data = load();
  EXPECT_EQ(data.val.count, static_cast<Index>(all.size() / 4));
  std::vector<Id> found = ids_of(data.train);
  const std::vector<Id> val = ids_of(data.val);
  found.insert(found.end(), val.begin(), val.end());
  EXPECT_EQ(found, all);
  EXPECT_EQ(result.info.train.text_bytes + result.info.val.text_bytes, text.size());
  EXPECT_EQ(result.info.val.documents, 0U);
}

TEST_F(Build, BrokenUtf8AndBinaryTextsAreEncodedAsTheyAre) {
  std::string nasty = "a\xFF\xFE broken \xE2\x82 text \xC0\x80\n";
  nasty += std::string("and\0zero\n", 9);
  const BuildResult result = build(spec({put("nasty.txt", nasty)}));
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_NE(result.warnings[0].find("NUL byte (the first is byte 25"), std::string::npos)
      << result.warnings[0];
  std::vector<Id> ids = ids_of(load().train);
  const std::vector<Id> val = ids_of(load().val);
  ids.insert(ids.end(), val.begin(), val.end());
  EXPECT_EQ(tiny().decode(ids), nasty + "<|endoftext|>");
}

TEST_F(Build, EmptyInputsAreRefusedAndEmptyDocumentsSkipped) {
  const std::string empty = put("empty.txt", "");
  EXPECT_TRUE(throws<RequestError>([&] { build(spec({empty})); }, {"no text", "1 files"}));
  const BuildResult result = build(spec({empty, put("a.txt", "some words\n"), empty}));
  EXPECT_EQ(result.empty, 2U);
  EXPECT_EQ(result.info.train.documents, 1U);
}

TEST_F(Build, OneTokenIsADataSet) {
  build(spec({put("one.txt", "x")}), bytes());
  EXPECT_EQ(ids_of(load().train), (std::vector<Id>{'x', '\n'}));
  EXPECT_EQ(load().val.count, 0);
  EXPECT_EQ(load().bytes_per_token, 0);
}

TEST_F(Build, ALineOfManyMegabytesIsCutWithoutChangingItsTokens) {
  std::string line;
  for (int i = 0; line.size() < (std::size_t{8} << 20); ++i) line += say("word", i % 1000, " ");
  const BuildResult result = build(spec({put("line.txt", line)}));
  EXPECT_EQ(result.info.train.text_bytes + result.info.val.text_bytes, line.size());
  std::vector<Id> first = ids_of(load().train.part(0, 1000));
  const std::vector<Id> want = tiny().encode(line.substr(0, 100000));
  EXPECT_TRUE(std::equal(first.begin(), first.end(), want.begin()));
}

TEST_F(Build, NothingIsReplacedAndWhatIsAbsentIsNamed) {
  const std::string text = put("a.txt", "some words\n");
  put("out/keep", "mine");
  EXPECT_TRUE(throws<RequestError>(
      [&] { build_dataset(spec({text}), tiny(), [](const BuildProgress&) {}); },
      {"--out", "is there already"}));
  EXPECT_TRUE(throws<RequestError>([&] { build(spec({folder_ / "none"})); }, {"there is no file"}));
  fs::create_directories(folder_ / "bare");
  EXPECT_TRUE(throws<RequestError>([&] { build(spec({folder_ / "bare"})); }, {"holds no .txt"}));
  BuildSpec deep = spec({text});
  deep.out = folder_ / "new/folders/set/";
  build(deep);
  EXPECT_TRUE(fs::exists(folder_ / "new/folders/set/dataset.json"));
}

TEST_F(Build, ADiskThatFailsAtAnyCallLeavesNothing) {
  const std::string path = put("corpus.txt", joined(some_documents(30)));
  const std::vector<std::string> before = left();
  int failed = 0;
  for (long n = 1;; ++n) {
    test::FaultyDisk disk(io::real_file_system(), {.at = n, .error = EIO});
    bool threw = false;
    try {
      build_dataset(
          spec({path}), tiny(), [](const BuildProgress&) {}, disk);
    } catch (const Error&) {
      threw = true;
      ++failed;
    }
    if (!disk.struck()) break;
    if (fs::exists(folder_ / "out")) {
      EXPECT_NO_THROW(load()) << "call " << n;  // the name came, what failed came after
      fs::remove_all(folder_ / "out");
    } else {
      EXPECT_TRUE(threw) << n;
    }
    EXPECT_EQ(left(), before) << "call " << n;
  }
  EXPECT_GT(failed, 15);
}

}  // namespace
}  // namespace norma
