// Getting a set from a registry that does what the test wants: a script stands for npm.
#include "norma/fetch/sets.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "norma/base/clock.h"
#include "norma/base/text.h"
#include "norma/io/run_lock.h"
#include "norma/io/sha256.h"
#include "tests/support/contents.h"
#include "tests/support/expect.h"
#include "tests/support/tar_archive.h"
#include "tests/support/temp_folder.h"

namespace norma::fetch {
namespace {

namespace fs = std::filesystem;
using test::tar_end;
using test::tar_member;
using test::throws;

class GetSet : public testing::Test {
 protected:
  void SetUp() override {
    put("good.tar",
        tar_member({.name = "package/package.json", .contents = "{}"}) +
            tar_member({.name = "package/a.txt", .contents = "first\n"}) +
            tar_member({.name = "package/b.txt", .contents = "second\n"}) + tar_end());
    npm("gzip -c ../../../good.tar > tiny-1.0.0.tgz");
    set_ = {.name = "tiny",
            .what = "two words",
            .licence = "none",
            .otherwise = "or go without",
            .packages = {{.name = "tiny@1.0.0", .prefix = "package/", .suffix = ".txt"}},
            .files = {{.name = "words", .bytes = 13, .sha256 = io::sha256_of("first\nsecond\n")},
                      {.name = "first", .bytes = 6, .sha256 = io::sha256_of("first\n")}},
            .make = [](const std::vector<Members>& packages) {
              std::string all;
              for (const auto& [name, text] : packages[0]) all += text;
              return std::vector<std::string>{all, packages[0].begin()->second};
            }};
  }

  void put(const std::string& name, const std::string& contents) const {
    std::ofstream(folder_ / name, std::ios::binary) << contents;
  }
  std::string get(const std::string& name) const { return test::contents(folder_ / name); }
  /// From here on npm is this script; it counts its calls and keeps its arguments.
  void npm(const std::string& script) const {
    put("npm", say("#!/bin/sh\necho \"$@\" >> ", folder_ / "calls", "\n", script, "\n"));
    fs::permissions(folder_ / "npm", fs::perms::owner_all);
  }
  GotSet run(bool force = false, double deadline_s = 20) const {
    return get_set(io::real_file_system(),
                   set_,
                   {.to = folder_ / "sets",
                    .force = force,
                    .npm = {.program = folder_ / "npm", .deadline_s = deadline_s}});
  }
  /// Nothing but the lock and the files of the set is left.
  void expect_only(std::vector<std::string> names) const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_ / "sets/tiny")) {
      found.push_back(entry.path().filename());
    }
    names.emplace_back(".lock");
    std::sort(found.begin(), found.end());
    std::sort(names.begin(), names.end());
    EXPECT_EQ(found, names);
  }

  test::TempFolder folder_;
  Set set_;
};

TEST_F(GetSet, FetchesOnceAndThenVerifies) {
  const GotSet got = run();
  EXPECT_EQ(got.folder, fs::canonical(folder_ / "sets/tiny"));
  EXPECT_FALSE(got.was_there);
  EXPECT_EQ(get("sets/tiny/words"), "first\nsecond\n");
  EXPECT_EQ(get("sets/tiny/first"), "first\n");
  expect_only({"words", "first"});
  const std::string calls = get("calls");
  EXPECT_EQ(calls.rfind("pack tiny@1.0.0 --ignore-scripts ", 0), 0U) << calls;

  EXPECT_TRUE(run().was_there);
  EXPECT_EQ(get("calls"), calls) << "npm was not asked again";
  EXPECT_FALSE(run(true).was_there);
  EXPECT_EQ(get("calls"), calls + calls) << "by force it was";
}

TEST_F(GetSet, WhatWasSpoiltIsFetchedAgainAndOtherFilesStay) {
  run();
  for (const char* spoilt : {"", "first\nsecone\n", "first\nsecond\nthird\n"}) {
    put("sets/tiny/words", spoilt);
    put("sets/tiny/mine", "keep");
    EXPECT_FALSE(run().was_there);
    EXPECT_EQ(get("sets/tiny/words"), "first\nsecond\n");
    EXPECT_EQ(get("sets/tiny/mine"), "keep");
  }
}

TEST_F(GetSet, AnotherPackageThanWePublishedIsRefused) {
  put("good.tar", tar_member({.name = "package/a.txt", .contents = "forged\n"}) + tar_end());
  EXPECT_TRUE(throws<Error>([&] { run(); },
                            {"what the registry serves as tiny@1.0.0 is not what was published",
                             "words would have 7 bytes",
                             io::sha256_of("forged\n"),
                             set_.files[0].sha256,
                             "Nothing was kept",
                             "or go without."}));
  expect_only({});
}

TEST_F(GetSet, DamagedPackagesAreRefusedAndNothingIsKept) {
  for (const char* script : {"gzip -c ../../../good.tar | head -c 100 > t.tgz",
                             "head -c 700 ../../../good.tar > t.tgz",
                             "echo garbage > t.tgz",
                             ": > t.tgz"}) {
    npm(script);
    EXPECT_TRUE(
        throws<Error>([&] { run(); }, {"what npm fetched as tiny@1.0.0 is not sound", "t.tgz"}))
        << script;
    expect_only({});
  }
  npm("true");
  EXPECT_TRUE(throws<Error>([&] { run(); }, {"left no archive of tiny@1.0.0", "or go without."}));
}

TEST_F(GetSet, ADamagedPackageLeavesTheOldFilesAlone) {
  run();
  npm("echo garbage > t.tgz");
  EXPECT_THROW(run(true), Error);
  EXPECT_EQ(get("sets/tiny/words"), "first\nsecond\n");
  EXPECT_TRUE(run().was_there);
}

TEST_F(GetSet, NpmThatFailsIsQuoted) {
  npm("echo 'npm ERR! code E404' >&2; echo 'npm ERR! 404 Not Found - tiny' >&2;"
      "echo 'npm ERR! A complete log of this run can be found in: /x/_logs/y' >&2; exit 1");
  EXPECT_TRUE(throws<Error>([&] { run(); },
                            {"npm could not fetch tiny@1.0.0 (exit code 1): 404 Not Found - tiny.",
                             "npm config get registry",
                             "or go without."}));
  expect_only({});
}

TEST_F(GetSet, NpmThatHangsIsEnded) {
  npm("sleep 60");
  const Stopwatch watch;
  EXPECT_TRUE(
      throws<Error>([&] { run(false, 0.3); },
                    {"npm did not fetch tiny@1.0.0 within 0.3 s", "does not answer", "or go"}));
  EXPECT_LT(watch.seconds(), 10.0);
  expect_only({});
}

TEST_F(GetSet, NpmThatIsAbsentIsNamed) {
  fs::remove(folder_ / "npm");
  EXPECT_TRUE(throws<Error>(
      [&] { run(); }, {"fetching tiny@1.0.0 needs npm", "apt-get install", "or go without."}));
}

TEST_F(GetSet, OneProcessAtATime) {
  fs::create_directories(folder_ / "sets/tiny");
  const io::RunLock lock(io::real_file_system(), folder_ / "sets/tiny");
  EXPECT_TRUE(throws<Error>([&] { run(); }, {"sets/tiny is in use"}));
}

TEST_F(GetSet, WhatAKilledProcessLeftIsRemoved) {
  fs::create_directories(folder_ / "sets/tiny/package.tmp.1.0");
  put("sets/tiny/package.tmp.1.0/half.tgz", "x");
  run();
  expect_only({"words", "first"});
}

TEST_F(GetSet, ALinkToAFolderIsFollowed) {
  fs::create_directories(folder_ / "elsewhere");
  fs::create_directory_symlink(folder_ / "elsewhere", folder_ / "sets");
  run();
  EXPECT_EQ(get("elsewhere/tiny/first"), "first\n");
}

TEST(Sets, AnUnknownNameIsRefusedWithTheNearest) {
  EXPECT_TRUE(throws<RequestError>([] { known_set("gtp2"); },
                                   {"no set gtp2", "demo, gpt2", "Did you mean gpt2?"}));
}

TEST(Sets, EveryFileHasADigest) {
  for (const Set& set : known_sets()) {
    EXPECT_FALSE(set.licence.empty() || set.what.empty() || set.otherwise.empty());
    for (const SetFile& file : set.files) {
      EXPECT_EQ(file.sha256.size(), 64U);
      EXPECT_GT(file.bytes, 0U);
    }
  }
}

}  // namespace
}  // namespace norma::fetch
