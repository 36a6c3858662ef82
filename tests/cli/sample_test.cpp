// norma sample, samples during training and norma eval from outside.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "norma/base/json_value.h"
#include "norma/base/rng.h"
#include "norma/base/text.h"
#include "tests/cli/program.h"
#include "tests/support/contents.h"
#include "tests/support/temp_folder.h"

namespace norma {
namespace {

namespace fs = std::filesystem;

using test::contents;

std::vector<JsonValue> json_lines(const std::string& text) {
  std::vector<JsonValue> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(parse_json("test", line));
  return lines;
}

/// A run that all tests of this page look at.
class CliSample : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new test::TempFolder;
    std::ofstream text(path("book.txt"));
    for (std::uint64_t i = 0; i < 3000; ++i) {
      text << (random_word({1, 1}, i) % 3 == 0 ? "sun " : "moon ");
    }
    text.close();
    std::ofstream(path("r.toml")) << R"(
[model]
layers = 1
width = 16
heads = 2
context = 16
[optim]
lr = 1e-2
[train]
steps = 12
batch = 4
checkpoint_every = 6
keep_last = 4
sample_every = 4
sample_tokens = 9
sample_prompt = "mo"
samples = 2
)";
    const Outcome outcome = train("--out " + path("a"));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static std::string path(const std::string& name) {
    return (fs::path(folder_->path()) / name).string();
  }
  static Outcome train(const std::string& more) {
    return run_norma(say("train ", path("r.toml"), " data.path=", path("book.txt"), " ", more));
  }
  static Outcome sample(const std::string& more) {
    return run_norma(say("sample ", path("a"), " ", more));
  }
  static std::string model_of(const std::string& run) {
    return contents(fs::path(path(run)) / "checkpoints/step-00000012/model.safetensors");
  }
  static test::TempFolder* folder_;
};
test::TempFolder* CliSample::folder_ = nullptr;

TEST_F(CliSample, TheTextBeginsWithThePromptAndHasAsManyTokensAsAsked) {
  const Outcome one = sample("--prompt 'the sun ' --tokens 50");
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_TRUE(one.out.starts_with("the sun "));
  EXPECT_EQ(one.out.size(), 8 + 50 + 1U);  // and the new line behind it
  EXPECT_EQ(sample("--prompt 'the sun ' --tokens 50").out, one.out);
  EXPECT_NE(sample("--prompt 'the sun ' --tokens 50 --seed 2").out, one.out);
}

TEST_F(CliSample, SampleIIsTheSameHoweverManyThereAre) {
  const std::string how = " --prompt mo --tokens 20 --temperature 1 --json -n ";
  const auto few = json_lines(sample(how + "2").out);
  const auto many = json_lines(sample(how + "11").out);  // more than one batch
  ASSERT_EQ(few.size(), 2U);
  ASSERT_EQ(many.size(), 11U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(few[i].find("text")->text, many[i].find("text")->text);
  }
  EXPECT_EQ(many[10].find("sample")->integer, 10);
  EXPECT_EQ(many[0].find("prompt")->text, "mo");
  EXPECT_EQ(many[0].find("tokens")->integer, 20);
  EXPECT_EQ(many[0].find("step")->integer, 12);
  EXPECT_EQ(many[0].find("seed")->integer, 1);
  EXPECT_GT(many[0].find("tokens_per_s")->number, 0);
}

TEST_F(CliSample, SeveralSamplesHaveHeadings) {
  const Outcome outcome = sample("--prompt mo -n 3 --tokens 5");
  EXPECT_EQ(outcome.code, 0);
  for (const char* heading : {"--- sample 1 of 3 ---\nmo", "--- sample 3 of 3 ---\nmo"}) {
    EXPECT_TRUE(has(outcome.out, heading));
  }
}

TEST_F(CliSample, ThePromptComesFromAFileOrStandardInputToo) {
  std::ofstream(path("prompt.txt")) << "moon sun";
  const std::string direct = sample("--prompt 'moon sun' --tokens 9").out;
  EXPECT_EQ(sample("--prompt-file " + path("prompt.txt") + " --tokens 9").out, direct);
  const Outcome piped =
      run_in_shell(say("printf 'moon sun' | $NORMA sample ", path("a"), " --prompt - --tokens 9"));
  EXPECT_EQ(piped.out, direct);
  EXPECT_EQ(sample("--tokens 9").out.size(),
            10U);  // no prompt: from a new line, which is not shown
}

TEST_F(CliSample, AnOlderCheckpointCanBeNamed) {
  const auto old = json_lines(sample("--checkpoint 6 --json --prompt mo").out);
  ASSERT_EQ(old.size(), 1U);
  EXPECT_EQ(old[0].find("step")->integer, 6);
}

TEST_F(CliSample, WrongRequestsAreSentences) {
  const auto refused = [&](const std::string& more, const std::string& sentence) {
    const Outcome outcome = sample(more);
    EXPECT_EQ(outcome.code, 2) << more;
    EXPECT_TRUE(has(outcome.err, sentence)) << more;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  };
  refused("--checkpoint 7", "no checkpoint of step 7; there are: 6, 12.");
  refused("--temperature -1", "temperature must be 0");
  refused("--top-p 0", "top_p must lie above 0");
  refused("--top-k -3", "top_k");
  refused("-n 0", "samples");
  refused("--prompt a --prompt-file b", "not both");
  EXPECT_EQ(run_norma("sample /nowhere").code, 2);
  EXPECT_NE(sample("--prompt-file /nowhere").code, 0);
}

TEST_F(CliSample, ADamagedCheckpointIsNotUsed) {
  fs::copy(path("a"), path("torn"), fs::copy_options::recursive);
  fs::resize_file(path("torn/checkpoints/step-00000012/model.safetensors"), 1000);
  const Outcome outcome = run_norma("sample " + path("torn") + " --json");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(has(outcome.err, "skipped"));
  EXPECT_TRUE(has(outcome.out, "\"step\":6"));
  EXPECT_EQ(run_norma("sample " + path("torn") + " --checkpoint 12").code, 1);
}

TEST_F(CliSample, ASignalStopsIt) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Outcome outcome = run_in_shell(say("$NORMA sample ",
                                             path("a"),
                                             " --tokens 100000000 > ",
                                             path("long.txt"),
                                             " & P=$!; while [ ! -s ",
                                             path("long.txt"),
                                             " ]; do sleep 0.05; done; kill -",
                                             signal,
                                             " $P; wait $P"));
    EXPECT_EQ(outcome.code, 128 + signal) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    fs::remove(path("long.txt"));
  }
}

/// script(1) gives the program a terminal.
TEST_F(CliSample, ATerminalSeesControlCharactersAsText) {
  if (run_in_shell("command -v script").code != 0) GTEST_SKIP() << "there is no script(1)";
  const std::string ask =
      say("sample ", path("a"), " --tokens 1 --prompt \"$(printf 'a\\033[2Jb')\"");
  EXPECT_TRUE(has(run_norma(ask).out, "a\033[2Jb"));
  std::ofstream(path("escape.txt")) << "a\033[2Jb";
  const Outcome seen = run_in_shell(say("script -qec \"$NORMA sample ",
                                        path("a"),
                                        " --tokens 1 --prompt-file ",
                                        path("escape.txt"),
                                        "\" /dev/null"));
  EXPECT_TRUE(has(seen.out, "a\\x1b[2Jb"));
}

TEST_F(CliSample, SamplesOfTrainingAreTheSameAsThoseOfTheCheckpoint) {
  const auto lines = json_lines(contents(path("a/samples.jsonl")));
  ASSERT_EQ(lines.size(), 6U);  // steps 4, 8 and 12, two each
  EXPECT_EQ(lines[0].find("step")->integer, 4);
  EXPECT_EQ(lines[5].find("step")->integer, 12);
  EXPECT_EQ(lines[5].find("sample")->integer, 1);
  EXPECT_EQ(lines[5].find("prompt")->text, "mo");
  const auto again = json_lines(sample("--prompt mo -n 2 --tokens 9 --temperature 1 --json").out);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(lines[4 + i].find("text")->text, again[i].find("text")->text);
    EXPECT_EQ(lines[4 + i].find("seed")->integer, again[i].find("seed")->integer);
  }
}

TEST_F(CliSample, SamplingDoesNotDisturbTraining) {
  ASSERT_EQ(train("train.sample_every=0 --out " + path("silent")).code, 0);
  EXPECT_FALSE(fs::exists(path("silent/samples.jsonl")));
  EXPECT_EQ(model_of("silent"), model_of("a"));
}

TEST_F(CliSample, ResumingWritesEverySampleOnce) {
  fs::copy(path("a"), path("cut"), fs::copy_options::recursive);
  fs::remove_all(path("cut/checkpoints/step-00000012"));
  fs::remove(path("cut/DONE"));
  ASSERT_EQ(train("--resume --out " + path("cut")).code, 0);
  EXPECT_EQ(contents(path("cut/samples.jsonl")), contents(path("a/samples.jsonl")));
}

TEST_F(CliSample, EvalCountsWhatIsRight) {
  const auto line = json_lines(run_norma("eval " + path("a") + " --json").out);
  ASSERT_EQ(line.size(), 1U);
  EXPECT_NEAR(
      line[0].find("val/perplexity")->number, std::exp(line[0].find("val/loss")->number), 1e-9);
  EXPECT_NEAR(
      line[0].find("val/bpb")->number * std::log(2.0), line[0].find("val/loss")->number, 1e-9);
  EXPECT_GT(line[0].find("val/accuracy")->number, 0.2);
  EXPECT_LT(line[0].find("val/accuracy")->number, 1);
  EXPECT_TRUE(has(run_norma("eval " + path("a")).out, "of next tokens right"));
  const auto other = json_lines(
      run_norma(say("eval ", path("a"), " --data ", path("book.txt"), " --tokens 160 --json")).out);
  EXPECT_EQ(other[0].find("tokens")->integer, 160);
}

}  // namespace
}  // namespace norma
