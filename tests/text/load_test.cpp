#include "norma/text/load.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "norma/text/blocks.h"
#include "norma/text/bpe_files.h"
#include "tests/text/reference.h"
#include "tests/text/tiny_merges.h"

namespace norma::text {
namespace {

namespace fs = std::filesystem;

/// A folder of its own for each test.
class Files : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("norma-text-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string put(const std::string& name, std::string_view contents) const {
    std::ofstream(folder_ / name, std::ios::binary) << contents;
    return (folder_ / name).string();
  }
  static std::string complaint(const std::string& name) {
    try {
      load_tokenizer(name);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  fs::path folder_;
};

TEST_F(Files, EveryFormatAndAFolderGiveTheSameTokenizer) {
  const BpeModel tiny = read_merges("tiny.bpe", kTinyMerges);
  const std::string alone = load_tokenizer(put("tiny.bpe", kTinyMerges))->fingerprint();
  EXPECT_EQ(load_tokenizer(put("mine.json", tokenizer_json(tiny)))->fingerprint(), alone);
  put("merges.txt", merges_txt(tiny));
  EXPECT_EQ(load_tokenizer(put("vocab.json", vocab_json(tiny)))->fingerprint(), alone);
  EXPECT_EQ(load_tokenizer(folder_.string())->fingerprint(), alone);
  EXPECT_EQ(load_tokenizer("byte")->vocab_size(), 256);
}

TEST_F(Files, WhatIsAbsentIsNamed) {
  EXPECT_NE(complaint("no-such").find("neither byte nor gpt2 nor a file"), std::string::npos);
  EXPECT_NE(complaint(folder_.string()).find("no tokenizer.json"), std::string::npos);
  EXPECT_NE(complaint(put("vocab.json", "{}")).find("needs a merges.txt"), std::string::npos);
  EXPECT_NE(complaint(put("cut.bpe", "a b")).find("is the file whole?"), std::string::npos);
  EXPECT_NE(complaint("/dev/null").find("not a regular file"), std::string::npos);
}

TEST_F(Files, AnotherVocabularyIsNotTakenForGpt2s) {
  const char* former = std::getenv("NORMA_GPT2_VOCAB");
  const std::string kept = former == nullptr ? "" : former;
  ::setenv("NORMA_GPT2_VOCAB", put("vocab.bpe", kTinyMerges).c_str(), 1);
  EXPECT_NE(complaint("gpt2").find("is not the vocab.bpe that was published"), std::string::npos);
  ::setenv("NORMA_GPT2_VOCAB", (folder_ / "absent").c_str(), 1);
  EXPECT_NE(complaint("gpt2").find("norma data get gpt2"), std::string::npos);
  if (former == nullptr) {
    ::unsetenv("NORMA_GPT2_VOCAB");
  } else {
    ::setenv("NORMA_GPT2_VOCAB", kept.c_str(), 1);
  }
}

TEST_F(Files, BlocksAreTheFileAndEncodeLikeTheWhole) {
  Dice dice(40);
  const auto tiny = load_tokenizer(put("tiny.bpe", kTinyMerges));
  for (int i = 0; i < 30; ++i) {
    const std::string text = nasty_text(dice, 300);
    const std::string path = put("text", text);
    for (const std::size_t block_bytes : {1, 7, 64, 5000}) {
      std::string together;
      std::vector<Id> ids;
      for_each_block(path, block_bytes, [&](std::string_view block) {
        together += block;
        tiny->encode_into(block, Specials::as_text, ids);
      });
      ASSERT_EQ(together, text);
      ASSERT_EQ(ids, tiny->encode(text)) << block_bytes;
    }
  }
}

TEST_F(Files, BytesAreATokenizerFileToo) {
  const auto bytes = load_tokenizer("byte");
  const auto again = load_tokenizer(put("tokenizer.json", bytes->json()));
  EXPECT_EQ(again->fingerprint(), bytes->fingerprint());
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text += static_cast<char>(byte);
  EXPECT_EQ(again->encode(text), bytes->encode(text));
}

}  // namespace
}  // namespace norma::text
