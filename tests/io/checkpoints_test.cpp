#include "norma/io/checkpoints.h"

#include <cerrno>

#include <gtest/gtest.h>

#include "tests/io/training.h"
#include "tests/support/expect.h"
#include "tests/support/faulty_disk.h"
#include "tests/support/memory_disk.h"

namespace norma::io {
namespace {

using test::MemoryDisk;
using test::throws;

class CheckpointsTest : public testing::Test {
 protected:
  CheckpointsTest() {
    make_folder(disk_, kRun);
    make_folder(disk_, kParent);
  }
  void save_all(std::initializer_list<std::uint64_t> steps) {
    for (const std::uint64_t step : steps) save(disk_, kParent, step);
  }
  std::vector<std::uint64_t> present() {
    std::vector<std::uint64_t> steps;
    for (const std::string& name : list_folder(disk_, kParent)) {
      if (const auto step = step_of(name)) steps.push_back(*step);
    }
    return steps;
  }
  MemoryDisk disk_;
};

using Steps = std::vector<std::uint64_t>;

TEST_F(CheckpointsTest, NoFolderAndAnEmptyFolderHaveNone) {
  EXPECT_FALSE(newest_whole(disk_, "run/nowhere").whole);
  const NewestCheckpoint newest = newest_whole(disk_, kParent);
  EXPECT_FALSE(newest.whole);
  EXPECT_TRUE(newest.skipped.empty());
}

TEST_F(CheckpointsTest, TheNewestByNumberNotByName) {
  save_all({99999999, 100000000, 7});
  EXPECT_EQ(newest_whole(disk_, kParent).whole->step, 100000000U);
}

TEST_F(CheckpointsTest, DamagedOnesAreSkippedWithTheirReasons) {
  save_all({100, 200, 300, 400});
  disk_.put("run/checkpoints/step-00000400/state.json", "short");
  disk_.put("run/checkpoints/step-00000300/MANIFEST.json", "");
  const NewestCheckpoint newest = newest_whole(disk_, kParent);
  ASSERT_TRUE(newest.whole);
  EXPECT_EQ(newest.whole->step, 200U);
  EXPECT_EQ(newest.whole->folder, "run/checkpoints/step-00000200");
  EXPECT_EQ(newest.whole->manifest.facts.at("recipe"), "f00d");
  ASSERT_EQ(newest.skipped.size(), 2U);
  EXPECT_EQ(newest.skipped[0].folder, "run/checkpoints/step-00000400");
  EXPECT_NE(newest.skipped[0].why.find("state.json has 5 bytes"), std::string::npos);
  EXPECT_NE(newest.skipped[1].why.find("does not match its own digest"), std::string::npos);
}

TEST_F(CheckpointsTest, TheLastOnesAndEveryNthAreKept) {
  save_all({100, 200, 300, 400, 500, 600});
  EXPECT_EQ(retain(disk_, kParent, {.last = 2, .every = 300, .also = {100}}), (Steps{400, 200}));
  EXPECT_EQ(present(), (Steps{100, 300, 500, 600}));
  EXPECT_EQ(list_folder(disk_, kParent).size(), 4U);
  EXPECT_TRUE(retain(disk_, kParent, {.last = 2, .every = 300, .also = {100}}).empty());
}

TEST_F(CheckpointsTest, DamagedOnesNeitherCountNorGo) {
  save_all({100, 200, 300, 400, 500});
  disk_.put("run/checkpoints/step-00000500/state.json", "short");
  disk_.put("run/checkpoints/step-00000400/MANIFEST.json", "");
  disk_.put("run/checkpoints/step-00000100/MANIFEST.json", "");
  EXPECT_TRUE(retain(disk_, kParent, {.last = 2}).empty());
  EXPECT_EQ(present(), (Steps{100, 200, 300, 400, 500}));
}

TEST_F(CheckpointsTest, ADiskThatDoesNotAnswerIsNotDamage) {
  save_all({100, 200, 300});
  test::FaultyDisk faulty(disk_, {.at = 3, .error = EIO, .for_ever = true});
  EXPECT_TRUE(throws<FileError>([&] { retain(faulty, kParent, {.last = 2}); }, {"(EIO)"}));
  EXPECT_EQ(present(), (Steps{100, 200, 300}));
}

TEST_F(CheckpointsTest, FewerThanTwoCannotBeKept) {
  EXPECT_TRUE(
      throws<RequestError>([&] { retain(disk_, kParent, {.last = 1}); }, {"at least 2", "got 1"}));
}

TEST_F(CheckpointsTest, OnlyLeftoversOfOurOwnKindAreRemoved) {
  save_all({100});
  for (const char* name : {"step-00000200.tmp.12.0", "step-00000100.del.0", "probe.tmp.9"}) {
    make_folder(disk_, join(kParent, name));
    disk_.put(join(join(kParent, name), "file"), "x");
  }
  const std::vector<std::string> kept = {"best",
                                         "mine.tmp.1",
                                         "notes.del.0",
                                         "step-00000100",
                                         "step-00000100.tmp.old",
                                         "step-1.tmp.2"};
  for (const std::string& name : kept) make_folder(disk_, join(kParent, name));
  const RunLock lock(disk_, kRun);
  EXPECT_EQ(
      remove_leftovers(disk_, kParent, lock),
      (std::vector<std::string>{"probe.tmp.9", "step-00000100.del.0", "step-00000200.tmp.12.0"}));
  EXPECT_EQ(list_folder(disk_, kParent), kept);
}

TEST_F(CheckpointsTest, TheLockOfAnotherRunIsNoLicence) {
  make_folder(disk_, "runs");
  make_folder(disk_, "run2");
  const RunLock lock(disk_, kRun);
  EXPECT_TRUE(throws<RequestError>([&] { remove_leftovers(disk_, "runs", lock); }, {"runs"}));
  EXPECT_TRUE(throws<RequestError>([&] { prepare_checkpoints(disk_, "run2", lock, 0); }, {"run2"}));
  EXPECT_TRUE(remove_leftovers(disk_, kRun, lock).empty());
}

TEST_F(CheckpointsTest, TooLittleSpaceIsFoundOutBeforeTheFirstStep) {
  const RunLock lock(disk_, kRun);
  disk_.set_free_bytes(1 << 20);
  prepare_checkpoints(disk_, kParent, lock, 1 << 20);
  EXPECT_TRUE(
      throws<Error>([&] { prepare_checkpoints(disk_, kParent, lock, 3 << 20); },
                    {kParent, "has 1.0 MiB of free space", "need 3.0 MiB", "Free some space"}));
}

TEST_F(CheckpointsTest, AFolderThatCannotBeWrittenIsFoundOutBeforeTheFirstStep) {
  const RunLock lock(disk_, kRun);
  for (long n = 1; n < 40; ++n) {
    test::FaultyDisk faulty(disk_, {.at = n, .error = EROFS, .for_ever = true});
    try {
      prepare_checkpoints(faulty, kParent, lock, 1);
      EXPECT_FALSE(faulty.struck()) << "call " << n;
    } catch (const FileError& error) {
      EXPECT_EQ(error.code(), EROFS);
    }
  }
  remove_leftovers(disk_, kParent, lock);
  EXPECT_TRUE(list_folder(disk_, kParent).empty());
}

}  // namespace
}  // namespace norma::io
