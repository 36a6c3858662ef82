// norma tokenizer from outside: train, encode and decode through files and pipes.
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "tests/cli/program.h"
#include "tests/support/contents.h"

namespace norma {
namespace {

namespace fs = std::filesystem;

class TokenizerCli : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / say("norma-cli-tokenizer-", ::getpid());
    fs::create_directories(folder_);
    for (int i = 0; i < 30; ++i) {
      corpus_ += "the cat sat on the mat; the cat's hat isn't flat.\n<|endoftext|>\n";
    }
    put("corpus.txt", corpus_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  void put(const std::string& name, const std::string& contents) const {
    std::ofstream(at(name), std::ios::binary) << contents;
  }
  std::string get(const std::string& name) const { return test::contents(at(name)); }
  Outcome train(const std::string& more = "") const {
    return run_norma(
        say("tokenizer train ", at("corpus.txt"), " --vocab 270 --out ", at("t.json"), more));
  }

  fs::path folder_;
  std::string corpus_;
};

void expect_error(const Outcome& outcome, int code, const std::string& part) {
  EXPECT_EQ(outcome.code, code);
  EXPECT_EQ(outcome.err.rfind("norma: error: ", 0), 0U) << outcome.err;
  EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

TEST_F(TokenizerCli, EncodesAndDecodesBytes) {
  put("in", "Hi!\n");
  const Outcome encoded = run_norma("tokenizer encode --tokenizer byte " + at("in"));
  EXPECT_EQ(encoded.code, 0) << encoded.err;
  EXPECT_EQ(encoded.out, "72 105 33 10\n");
  put("ids", encoded.out);
  EXPECT_EQ(run_norma("tokenizer decode --tokenizer byte " + at("ids")).out, "Hi!\n");
}

TEST_F(TokenizerCli, AnEmptyFileHasNoIds) {
  put("empty", "");
  EXPECT_EQ(run_norma("tokenizer encode --tokenizer byte " + at("empty")).out, "\n");
  EXPECT_EQ(run_norma("tokenizer decode --tokenizer byte " + at("empty")).out, "");
}

TEST_F(TokenizerCli, TrainsAndTheCorpusReadsBack) {
  const Outcome trained = train();
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.out.find("270 ids"), std::string::npos) << trained.out;
  const std::string with = "--tokenizer " + at("t.json") + " ";
  for (const char* form : {"", "--binary uint16 ", "--binary uint32 "}) {
    put("ids", run_norma(say("tokenizer encode ", with, form, at("corpus.txt"))).out);
    EXPECT_EQ(run_norma(say("tokenizer decode ", with, form, at("ids"))).out, corpus_) << form;
  }
}

TEST_F(TokenizerCli, BinaryIdsAreLittleEndian) {
  put("in", "A\xFF");
  EXPECT_EQ(run_norma("tokenizer encode --tokenizer byte --binary uint16 " + at("in")).out,
            std::string("A\0\xFF\0", 4));
  EXPECT_EQ(run_norma("tokenizer encode --tokenizer byte --binary uint32 " + at("in")).out,
            std::string("A\0\0\0\xFF\0\0\0", 8));
}

TEST_F(TokenizerCli, SpecialTokensAreRecognizedOnlyWhenAsked) {
  ASSERT_EQ(train().code, 0);
  put("in", "<|endoftext|>");
  const std::string encode = "tokenizer encode --tokenizer " + at("t.json") + " " + at("in");
  EXPECT_EQ(run_norma(encode + " --specials").out, "269\n");
  EXPECT_GT(run_norma(encode).out.size(), 10U);
}

TEST_F(TokenizerCli, TheNumberOfThreadsChangesNothing) {
  ASSERT_EQ(train().code, 0);
  std::string text;
  while (text.size() < 2000000) text += corpus_;
  put("large", text);
  const std::string encode = "tokenizer encode --tokenizer " + at("t.json") + " " + at("large");
  const Outcome one = run_norma(encode + " --threads 1");
  EXPECT_EQ(one.code, 0);
  EXPECT_TRUE(run_norma(encode + " --threads 3").out == one.out);
}

TEST_F(TokenizerCli, TrainingReportsAsJsonAndSaysWhenItStopsEarly) {
  const Outcome trained = train(" --json");
  EXPECT_EQ(trained.out.rfind("{\"out\":", 0), 0U) << trained.out;
  EXPECT_NE(trained.out.find("\"vocab\":270,\"merges\":13,"), std::string::npos) << trained.out;
  put("corpus.txt", "abab");
  const Outcome early = train();
  EXPECT_EQ(early.code, 0);
  EXPECT_NE(early.err.find("only 258 of 270 ids"), std::string::npos) << early.err;
}

TEST_F(TokenizerCli, WrongRequestsAndDamagedFilesAreSentences) {
  const std::string byte = "tokenizer decode --tokenizer byte ";
  put("ids", "1 2 256");
  expect_error(run_norma(byte + at("ids")), 2, "ids 0 to 255, but id number 3 is 256");
  put("ids", "1 2 x");
  expect_error(run_norma(byte + at("ids")), 1, "number 3 is not");
  put("ids", "1 99999999999");
  expect_error(run_norma(byte + at("ids")), 1, "number 2 is not");
  put("ids", "abc");
  expect_error(run_norma(byte + "--binary uint16 " + at("ids")), 1, "no whole number of 2-byte");
  expect_error(run_norma(byte + at("absent")), 1, "No such file");
  expect_error(run_norma(byte + "--binary uint8 " + at("ids")), 2, "--binary");
  expect_error(run_norma("tokenizer encode --tokenizer no-such"), 1, "neither byte nor gpt2");
  put("t.json", "{");
  expect_error(run_norma("tokenizer encode --tokenizer " + at("t.json")), 1, "not JSON");
  expect_error(run_norma("tokenizer trian"), 2, "Did you mean train?");
}

TEST_F(TokenizerCli, ATrainingThatFailsLeavesNoFile) {
  const std::string out = " --out " + at("t.json");
  const std::string corpus = at("corpus.txt");
  expect_error(run_norma("tokenizer train " + corpus + " --vocab 100" + out), 2, "257 to");
  expect_error(run_norma("tokenizer train " + at("absent") + " --vocab 300" + out), 1, "absent");
  expect_error(run_norma("tokenizer train " + corpus + " --vocab 300 --out " + at("no/t.json")),
               1,
               "No such file");
  EXPECT_FALSE(fs::exists(at("t.json")));
  EXPECT_EQ(get("corpus.txt"), corpus_);
}

TEST_F(TokenizerCli, AnAbsentGpt2SaysHowToGetIt) {
  ::setenv("NORMA_GPT2_VOCAB", at("absent.bpe").c_str(), 1);
  expect_error(run_norma("tokenizer encode"), 1, "norma data get gpt2");
  ::unsetenv("NORMA_GPT2_VOCAB");
}

}  // namespace
}  // namespace norma
