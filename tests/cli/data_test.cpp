// norma data text and inspect from outside, and training on what they make.
#include <csignal>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "tests/cli/program.h"
#include "tests/support/temp_folder.h"

namespace norma {
namespace {

namespace fs = std::filesystem;

class CliData : public testing::Test {
 protected:
  CliData() {
    for (int i = 0; i < 60; ++i) {
      corpus_ += say("Story ", i, ": the cat sat on the mat ", i * i, " times.\n<|endoftext|>\n");
    }
    put("corpus.txt", corpus_);
    put("r.toml", R"(
model = { layers = 1, width = 16, heads = 2, context = 16, vocab = 256 }
optim = { lr = 1e-2 }
train = { steps = 6, batch = 4, checkpoint_every = 3 }
)");
  }
  std::string at(const std::string& name) const { return folder_ / name; }
  void put(const std::string& name, std::string_view contents) const {
    std::ofstream(at(name), std::ios::binary) << contents;
  }
  std::string get(const std::string& name) const {
    std::ifstream file(at(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  Outcome make(const std::string& more = "") const {
    return run_norma(
        say("data text ", at("corpus.txt"), " --tokenizer byte --out ", at("set"), " ", more));
  }
  Outcome train(const std::string& more) const {
    return run_norma(say("train ", at("r.toml"), " data.path=", at("set"), " ", more));
  }
  std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  test::TempFolder folder_;
  std::string corpus_;
};

TEST_F(CliData, TextBecomesAFolderThatCanBeInspected) {
  const Outcome made = make("--licence 'CC0, from the tests'");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_TRUE(has(made.out, "54 documents"));
  EXPECT_TRUE(has(made.out, "6 documents"));
  EXPECT_EQ(made.err, "");
  const Outcome seen = run_norma("data inspect " + at("set"));
  ASSERT_EQ(seen.code, 0) << seen.err;
  for (const char* part : {"tokenizer  byte, 256 ids",
                           "CC0, from the tests",
                           "verified",
                           "1.000 bytes a token",
                           "most frequent",
                           "Story 0: the cat sat",
                           "\\n"}) {
    EXPECT_TRUE(has(seen.out, part));
  }
  const Outcome json = run_norma("data inspect --json " + at("set"));
  EXPECT_TRUE(has(json.out, "{\"kind\":\"dataset\""));
  EXPECT_TRUE(has(json.out, "\"documents\":54"));
  EXPECT_TRUE(has(json.out, "\"kind\":\"token\",\"id\":32"));
}

TEST_F(CliData, TheSameRequestGivesTheSameBytesAndAnotherSeedOthers) {
  ASSERT_EQ(make().code, 0);
  fs::rename(at("set"), at("first"));
  ASSERT_EQ(make("--threads 1").code, 0);
  for (const char* file : {"/train.bin", "/val.bin", "/dataset.json", "/tokenizer.json"}) {
    EXPECT_EQ(get(std::string("set") + file), get(std::string("first") + file)) << file;
  }
  fs::remove_all(at("set"));
  ASSERT_EQ(make("--seed 2").code, 0);
  EXPECT_NE(get("set/val.bin"), get("first/val.bin"));
}

TEST_F(CliData, PipesPackedFilesAndJsonLinesGiveTheSameTokens) {
  ASSERT_EQ(make().code, 0);
  const std::string rest = " --tokenizer byte --out " + at("other");
  const auto same = [&](const std::string& script) {
    const Outcome outcome = run_in_shell(script + rest);
    EXPECT_EQ(outcome.code, 0) << script << outcome.err;
    EXPECT_TRUE(get("other/train.bin") == get("set/train.bin")) << script;
    EXPECT_TRUE(get("other/val.bin") == get("set/val.bin")) << script;
    fs::remove_all(at("other"));
  };
  same("cat " + at("corpus.txt") + " | $NORMA data text -");
  same("gzip -k " + at("corpus.txt") + "; $NORMA data text " + at("corpus.txt.gz"));
  same("gzip -c " + at("corpus.txt") + " | $NORMA data text -");
  std::string lines;
  for (int i = 0; i < 60; ++i) {
    lines += say("{\"body\": \"Story ", i, ": the cat sat on the mat ", i * i, " times.\\n\"}\n");
  }
  put("lines.jsonl", lines);
  same("$NORMA data text --field body " + at("lines.jsonl"));
  same("cat " + at("lines.jsonl") + " | $NORMA data text --field body -");
}

TEST_F(CliData, ARunTrainsOnItAndKeepsItsTokenizer) {
  ASSERT_EQ(make().code, 0);
  const Outcome run = train("--out " + at("run"));
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(get("run/tokenizer.json"), get("set/tokenizer.json"));
  EXPECT_TRUE(has(get("run/metrics.jsonl"), "val/bpb"));
  const Outcome eval = run_norma("eval " + at("run") + " --json");
  EXPECT_EQ(eval.code, 0) << eval.err;
  EXPECT_TRUE(has(eval.out, "val/bpb"));
  const Outcome refused = train("model.vocab=200 --out " + at("other"));
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(has(refused.err, "256 token ids, but model.vocab is 200"));
}

TEST_F(CliData, ATextFileGivesARunItsTokenizerToo) {
  const std::string command = say("train ", at("r.toml"), " data.path=", at("corpus.txt"));
  ASSERT_EQ(run_norma(say(command, " --out ", at("run"))).code, 0);
  const Outcome decoded = run_in_shell(
      say("echo 72 105 10 | $NORMA tokenizer decode --tokenizer ", at("run/tokenizer.json")));
  EXPECT_EQ(decoded.out, "Hi\n");
}

TEST_F(CliData, ARunDoesNotGoOnWithOtherData) {
  ASSERT_EQ(make().code, 0);
  ASSERT_EQ(train("--out " + at("run")).code, 0);
  fs::remove_all(at("run/checkpoints/step-00000006"));
  fs::remove(at("run/DONE"));
  fs::rename(at("set"), at("former"));
  ASSERT_EQ(make("--seed 5").code, 0);
  const Outcome refused = train("--resume --out " + at("run"));
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(has(refused.err, "was trained on other data: their digest was"));
  EXPECT_TRUE(has(refused.err, "set, norma is"));
  fs::remove_all(at("set"));
  fs::rename(at("former"), at("set"));
  EXPECT_EQ(train("--resume --out " + at("run")).code, 0);
}

TEST_F(CliData, WrongRequestsAreSentences) {
  const auto refused = [&](const std::string& arguments, int code, const std::string& sentence) {
    const Outcome outcome = run_norma(arguments);
    EXPECT_EQ(outcome.code, code) << arguments;
    EXPECT_TRUE(has(outcome.err, sentence)) << arguments;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  };
  const std::vector<std::string> before = left();
  const std::string end = " --tokenizer byte --out " + at("x");
  refused("data text " + at("none") + end, 2, "there is no file or folder");
  refused("data text " + at("corpus.txt") + " --val-fraction 2" + end, 2, "--val-fraction");
  refused("data text " + at("corpus.txt") + " --tokenizer byte", 2, "--out");
  refused("data text " + at("corpus.txt") + " --tokenizer byte --out " + at("r.toml"),
          2,
          "is there already");
  refused("data txt", 2, "Did you mean text?");
  refused("data inspect " + at("none"), 2, "there is no file or folder");
  put("broken.jsonl", "{\"text\": \"a\"}\nnonsense\n");
  refused("data text " + at("broken.jsonl") + end, 1, "line 2");
  fs::remove(at("broken.jsonl"));
  EXPECT_EQ(left(), before);
}

TEST_F(CliData, ABinaryFileIsWarnedAbout) {
  put("bin", std::string("a\0b\0c\0", 6));
  const Outcome outcome =
      run_norma("data text " + at("bin") + " --tokenizer byte --out " + at("set"));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(has(outcome.err, "norma: warning: "));
  EXPECT_TRUE(has(outcome.err, "NUL byte"));
}

TEST_F(CliData, ASignalLeavesNothing) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::vector<std::string> before = left();
    // An endless text; the program is stopped once its temporary folder is there.
    const Outcome outcome = run_in_shell(say("mkfifo ",
                                             at("pipe"),
                                             "; yes some words > ",
                                             at("pipe"),
                                             " & Y=$!; $NORMA data text ",
                                             at("pipe"),
                                             " --tokenizer byte --out ",
                                             at("set"),
                                             " & P=$!; while ! ls ",
                                             at("set.tmp."),
                                             "* >/dev/null 2>&1; do sleep 0.05; done; kill -",
                                             signal,
                                             " $P; wait $P; C=$?; kill $Y; rm ",
                                             at("pipe"),
                                             "; exit $C"));
    EXPECT_EQ(outcome.code, 128 + signal) << outcome.err;
    EXPECT_TRUE(has(outcome.err, "nothing was left"));
    EXPECT_EQ(left(), before);
  }
}

}  // namespace
}  // namespace norma
