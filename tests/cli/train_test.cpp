// norma train and norma eval from outside: what a run leaves behind, refusals, stopping and
// resuming.
#include <csignal>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "norma/base/rng.h"
#include "norma/base/text.h"
#include "tests/cli/program.h"
#include "tests/support/contents.h"
#include "tests/support/temp_folder.h"

namespace norma {
namespace {

namespace fs = std::filesystem;

using test::contents;

class CliTrain : public testing::Test {
 protected:
  CliTrain() {
    std::ofstream text(path("book.txt"));
    for (std::uint64_t i = 0; i < 3000; ++i) {
      text << (random_word({1, 1}, i) % 3 == 0 ? "sun " : "moon ");
    }
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
log_every = 4
eval_every = 6
)";
  }
  std::string path(const std::string& name) const {
    return (fs::path(folder_.path()) / name).string();
  }
  Outcome train(const std::string& more) const {
    return run_norma(say("train ", path("r.toml"), " data.path=", path("book.txt"), " ", more));
  }
  std::string checkpoint(const std::string& run, const char* step, const char* file) const {
    return contents(fs::path(path(run)) / "checkpoints" / step / file);
  }
  test::TempFolder folder_;
};

TEST_F(CliTrain, ARunLeavesItsFolder) {
  const Outcome outcome = train("--out " + path("a"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.out, "12 steps"));
  for (const char* file : {"recipe.toml", "env.json", "metrics.jsonl", "DONE"}) {
    EXPECT_TRUE(fs::exists(fs::path(path("a")) / file)) << file;
  }
  EXPECT_FALSE(checkpoint("a", "step-00000012", "model.safetensors").empty());
  const std::string metrics = contents(fs::path(path("a")) / "metrics.jsonl");
  EXPECT_EQ(std::count(metrics.begin(), metrics.end(), '\n'), 4);  // steps 4, 6, 8, 12
  for (const char* key : {"\"train/loss\"",
                          "\"train/lr\"",
                          "\"train/grad_norm\"",
                          "\"train/clipped\"",
                          "\"perf/tokens_per_s\"",
                          "\"perf/mfu\"",
                          "\"val/loss\"",
                          "\"val/bpb\""}) {
    EXPECT_TRUE(has(metrics, key));
  }
  const Outcome eval = run_norma("eval " + path("a") + " --json");
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_TRUE(has(eval.out, "\"step\":12"));
  const std::string want = metrics.substr(metrics.rfind("\"val/loss\":") + 11, 9);
  EXPECT_TRUE(has(eval.out, say("\"val/loss\":", want)));
}

TEST_F(CliTrain, AFinishedRunIsNeverOverwrittenUnasked) {
  ASSERT_EQ(train("--out " + path("a")).code, 0);
  const Outcome again = train("--out " + path("a"));
  EXPECT_EQ(again.code, 2);
  EXPECT_TRUE(has(again.err, "--force"));
  const Outcome resumed = train("--resume --out " + path("a"));
  EXPECT_EQ(resumed.code, 0);
  EXPECT_TRUE(has(resumed.out, "done already"));
  EXPECT_EQ(train("train.seed=2 --force --out " + path("a")).code, 0);
}

TEST_F(CliTrain, ResumingGivesTheSameBits) {
  ASSERT_EQ(train("optim.name=adamw --out " + path("whole")).code, 0);
  ASSERT_EQ(train("train.checkpoint_every=7 --out " + path("parts")).code, 0);
  // As if the power had failed after step 9: the end of the run is gone.
  fs::remove_all(fs::path(path("parts")) / "checkpoints/step-00000012");
  fs::remove(fs::path(path("parts")) / "DONE");
  const Outcome resumed = train("train.checkpoint_every=7 --resume --out " + path("parts"));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(has(resumed.err, "going on after step 7"));
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    EXPECT_EQ(checkpoint("whole", "step-00000012", file),
              checkpoint("parts", "step-00000012", file));
  }
  const std::string metrics = contents(fs::path(path("parts")) / "metrics.jsonl");
  EXPECT_EQ(std::count(metrics.begin(), metrics.end(), '\n'), 4) << metrics;
}

TEST_F(CliTrain, ResumingWithAnotherRecipeNamesTheKeys) {
  ASSERT_EQ(train("--out " + path("a")).code, 0);
  fs::remove(fs::path(path("a")) / "DONE");
  const std::string before = checkpoint("a", "step-00000012", "model.safetensors");
  const Outcome other =
      train("optim.lr=0.5 scheme.base=ngpt train.steps=20 --resume --out " + path("a"));
  EXPECT_EQ(other.code, 2);
  for (const char* part : {"was started with another recipe",
                           "optim.lr was ",
                           "is 0.5",
                           "the scheme was pre-ln, is ngpt",
                           "train.steps was 12, is 20",
                           "train.init_from="}) {
    EXPECT_TRUE(has(other.err, part));
  }
  EXPECT_EQ(checkpoint("a", "step-00000012", "model.safetensors"), before);
  // What only decides what is looked at may change.
  EXPECT_EQ(train("train.log_every=1 train.eval_every=3 --resume --out " + path("a")).code, 0);
}

TEST_F(CliTrain, ARunWhoseScheduleDoesNotLookAheadMayGrow) {
  ASSERT_EQ(train("schedule.name=constant --out " + path("a")).code, 0);
  fs::remove(fs::path(path("a")) / "DONE");
  ASSERT_EQ(train("schedule.name=constant train.steps=15 --resume --out " + path("a")).code, 0);
  ASSERT_EQ(train("schedule.name=constant train.steps=15 --out " + path("b")).code, 0);
  EXPECT_EQ(checkpoint("a", "step-00000015", "model.safetensors"),
            checkpoint("b", "step-00000015", "model.safetensors"));
}

TEST_F(CliTrain, ADryRunStartsNothing) {
  const Outcome outcome = train("--dry-run --out " + path("a"));
  EXPECT_EQ(outcome.code, 0);
  for (const char* part : {"parameters", "optimizer state", "activations", "s a step"}) {
    EXPECT_TRUE(has(outcome.out, part));
  }
  EXPECT_FALSE(fs::exists(path("a")));
}

TEST_F(CliTrain, ADivergedRunSaysWhereAndIsMarked) {
  const Outcome outcome =
      train("scheme.base=no-norm optim.name=sgd optim.lr=1e5 train.steps=60 --out " + path("a"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(has(outcome.err, "is not a finite number at step"));
  EXPECT_TRUE(has(contents(fs::path(path("a")) / "FAILED"), "not a finite number"));
  EXPECT_FALSE(fs::exists(fs::path(path("a")) / "DONE"));
}

/// A run without end that is killed after `pause`, which may wait for something.
std::string killed_run(const std::string& folder,
                       const std::string& run,
                       const std::string& pause,
                       int signal) {
  return say("$NORMA train ",
             folder,
             "/r.toml data.path=",
             folder,
             "/book.txt train.steps=1000000 train.eval_every=0 train.log_every=1 --out ",
             run,
             " & P=$!; ",
             pause,
             "; kill -",
             signal,
             " $P; wait $P");
}

TEST_F(CliTrain, ASignalSavesAndSaysHowToGoOn) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::string run = path(say("run", signal));
    const std::string pause = say("while [ ! -s ", run, "/metrics.jsonl ]; do sleep 0.05; done");
    const Outcome outcome = run_in_shell(killed_run(folder_.path(), run, pause, signal));
    EXPECT_EQ(outcome.code, 128 + signal) << outcome.err;
    EXPECT_TRUE(has(outcome.err, "--resume"));
    EXPECT_FALSE(fs::is_empty(fs::path(run) / "checkpoints"));
    EXPECT_FALSE(fs::exists(fs::path(run) / "DONE"));
  }
}

/// A handler on top of a matrix product of oneDNN once wrote into the heap.
TEST_F(CliTrain, ASignalAtAnyMomentBreaksNothing) {
  // Not SIGINT: a shell lets its background jobs ignore that until they ask for it.
  for (const char* moment : {"0.05", "0.15", "0.3", "0.45", "0.6", "0.8"}) {
    const std::string run = path(say("run", moment));
    const Outcome outcome =
        run_in_shell(killed_run(folder_.path(), run, say("sleep ", moment), SIGTERM));
    EXPECT_EQ(outcome.code, 128 + SIGTERM) << moment << outcome.err;
    EXPECT_FALSE(fs::exists(fs::path(run) / "DONE"));
  }
}

TEST_F(CliTrain, WrongRequestsAreSentences) {
  const auto refused = [&](const std::string& more, const std::string& sentence) {
    const Outcome outcome = train(more);
    EXPECT_EQ(outcome.code, 2) << more;
    EXPECT_TRUE(has(outcome.err, sentence)) << more;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  };
  refused("--out " + path("a") + " optim.lrr=1", "Did you mean optim.lr?");
  refused("--out " + path("a") + " scheme.base=dnt-s6", "there is no scheme dnt-s6");
  refused("--out " + path("a") + " train.steps=0", "between 1 and");
  refused("", "--out FOLDER");
  refused("--out " + path("a") + " --force --resume", "one of them");
  refused("--out " + path("book.txt"), "is a file");
  refused("--out " + path("a") + " data.path=/nowhere.txt", "there is no file");
  EXPECT_EQ(run_norma("train /nowhere.toml --out /tmp/x").code, 2);
  EXPECT_EQ(run_norma("eval /nowhere").code, 2);
}

}  // namespace
}  // namespace norma
