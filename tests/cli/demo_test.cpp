// norma demo from outside, with few steps.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "norma/fetch/invented_text.h"
#include "tests/cli/program.h"
#include "tests/support/temp_folder.h"

namespace norma {
namespace {

namespace fs = std::filesystem;

class CliDemo : public testing::Test {
 protected:
  CliDemo() {
    std::ofstream(folder_ / "book.txt") << fetch::invented_text({.bytes = 60'000, .seed = 3});
  }
  std::string demo(const std::string& more) const {
    return say(
        "demo --threads 1 --data ", folder_ / "book.txt", " --out ", folder_ / "demo", " ", more);
  }
  static void expect_whole(const Outcome& outcome) {
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    for (const char* part : {"GPT-2   AdamW",
                             "GPT-2   mSGDW",
                             "L-DNT   AdamW",
                             "L-DNT   mSGDW",
                             "nGPT    AdamW",
                             "  best\n",
                             "goes on from \"The people\"",
                             "norma sample"}) {
      EXPECT_TRUE(has(outcome.out, part));
    }
    EXPECT_EQ(outcome.out.find("nan"), std::string::npos);
  }

  test::TempFolder folder_;
};

TEST_F(CliDemo, ShowsTheTableAndASampleAndIsDoneTheSecondTime) {
  const Outcome first = run_norma(demo("--steps 2"));
  expect_whole(first);
  for (const char* arm : {"gpt2-adamw", "gpt2-msgdw", "l-dnt-adamw", "l-dnt-msgdw", "ngpt-adamw"}) {
    EXPECT_TRUE(fs::exists(folder_ / say("demo/", arm, "/DONE"))) << arm;
  }
  const Outcome second = run_norma(demo("--steps 2"));
  EXPECT_EQ(second.code, 0);
  EXPECT_EQ(second.out, first.out);  // the same numbers: nothing was trained again
  EXPECT_EQ(second.err.find("step 2/2"), std::string::npos);
}

TEST_F(CliDemo, GoesOnWhereItWasStopped) {
  // Stopped as soon as the second model has begun.
  const Outcome stopped =
      run_in_shell(say("$NORMA ",
                       demo("--steps 3"),
                       " & child=$!; while kill -0 $child && [ ! -e ",
                       folder_ / "demo/gpt2-msgdw/recipe.toml",
                       " ]; do sleep 0.05; done; kill -INT $child; wait $child"));
  EXPECT_EQ(stopped.code, 130) << stopped.err;
  EXPECT_TRUE(has(stopped.err, "the same command goes on from here"));
  const Outcome rest = run_norma(demo("--steps 3"));
  expect_whole(rest);
  const Outcome whole = run_norma(say(
      "demo --threads 1 --data ", folder_ / "book.txt", " --out ", folder_ / "other --steps 3"));
  expect_whole(whole);
  const auto losses = [](const std::string& out) {
    std::string kept;
    for (std::size_t at = 0; (at = out.find(" M  ", at)) != std::string::npos; at += 4) {
      kept += out.substr(at + 4, 20) + "\n";
    }
    return kept;
  };
  EXPECT_EQ(losses(rest.out), losses(whole.out));
}

TEST_F(CliDemo, AnotherRequestForTheSameFolderIsRefused) {
  ASSERT_EQ(run_norma(demo("--steps 1")).code, 0);
  const Outcome other = run_norma(demo("--steps 2"));
  EXPECT_EQ(other.code, 2);
  EXPECT_TRUE(has(other.err, "holds a demo of 1 steps"));
}

TEST_F(CliDemo, WithoutNpmTheTextIsInvented) {
  const Outcome outcome = run_in_shell(say("PATH=/nowhere XDG_CACHE_HOME=",
                                           folder_ / "cache",
                                           " $NORMA demo --threads 1 --steps 1 --out ",
                                           folder_ / "demo"));
  expect_whole(outcome);
  EXPECT_TRUE(has(outcome.err, "going on with invented text"));
  EXPECT_TRUE(fs::exists(folder_ / "demo/invented.txt"));
}

TEST_F(CliDemo, ATextThatIsNotThereIsAnError) {
  const Outcome outcome =
      run_norma(say("demo --data ", folder_ / "no.txt", " --out ", folder_ / "demo"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(has(outcome.err, "no.txt"));
}

}  // namespace
}  // namespace norma
