#include "norma/train/kept_choices.h"

#include <gtest/gtest.h>

#include "norma/device/choices.h"
#include "norma/io/file.h"
#include "tests/support/memory_disk.h"

namespace norma {
namespace {

const KeptChoices::Files kFiles{"run/gpu_choices.txt", "cache/norma/gpu_choices.txt"};

// Choices are the process's own, so every test has names of its own.
class KeptChoicesTest : public testing::Test {
 protected:
  KeptChoicesTest() { io::make_folders(disk_, "run"); }
  void put(const std::string& path, const std::string& text) {
    io::make_folders(disk_, io::parent_of(path));
    disk_.put(path, text);
  }

  test::MemoryDisk disk_;
};

TEST_F(KeptChoicesTest, AreWrittenWhenSomethingNewWasChosenAndReadBack) {
  KeptChoices kept(disk_, kFiles);
  device::choose("kept", "this");
  kept.save();
  EXPECT_EQ(disk_.bytes_of(kFiles.of_run), device::choices_text());
  EXPECT_EQ(disk_.bytes_of(kFiles.of_machine), device::choices_text());
  put(kFiles.of_machine, disk_.bytes_of(kFiles.of_machine) + "kept by another run\tthat\n");
  const KeptChoices next(disk_, kFiles);
  EXPECT_EQ(device::choice("kept by another run"), "that");
}

TEST_F(KeptChoicesTest, ARunGoesOnWithItsOwnWhateverOthersChose) {
  put(kFiles.of_run, "by both\tours\n");
  put(kFiles.of_machine, "by both\ttheirs\nby another\ttheirs\n");
  KeptChoices kept(disk_, kFiles);
  EXPECT_EQ(device::choice("by both"), "ours");
  EXPECT_EQ(device::choice("by another"), "theirs");
  kept.save();
  EXPECT_NE(disk_.bytes_of(kFiles.of_run).find("by both\tours\n"), std::string::npos);
}

TEST_F(KeptChoicesTest, RunsAtTheSameTimeTakeNothingFromEachOther) {
  KeptChoices kept(disk_, kFiles);
  put(kFiles.of_machine, "chosen meanwhile\ttheirs\nchosen twice\ttheirs\n");
  device::choose("chosen twice", "ours");
  kept.save();
  const std::string machine = disk_.bytes_of(kFiles.of_machine);
  EXPECT_NE(machine.find("chosen meanwhile\ttheirs\n"), std::string::npos) << machine;
  EXPECT_NE(machine.find("chosen twice\ttheirs\n"), std::string::npos) << machine;
  EXPECT_NE(disk_.bytes_of(kFiles.of_run).find("chosen twice\tours\n"), std::string::npos);
}

TEST_F(KeptChoicesTest, NothingNewWritesNothing) {
  device::choose("before", "this");
  KeptChoices(disk_, kFiles).save();
  KeptChoices same(disk_, kFiles);
  for (const std::string& path : {kFiles.of_run, kFiles.of_machine}) put(path, "left alone\tyes\n");
  same.save();
  EXPECT_EQ(disk_.bytes_of(kFiles.of_run), "left alone\tyes\n");
  EXPECT_EQ(disk_.bytes_of(kFiles.of_machine), "left alone\tyes\n");
}

TEST_F(KeptChoicesTest, WhoeverReadsARunLeavesItsFileAlone) {
  put(kFiles.of_run, "of a run that is read\tours\n");
  KeptChoices kept(
      disk_, {.of_run = kFiles.of_run, .of_machine = kFiles.of_machine, .run_is_written = false});
  EXPECT_EQ(device::choice("of a run that is read"), "ours");
  device::choose("while reading", "this");
  kept.save();
  EXPECT_EQ(disk_.bytes_of(kFiles.of_run), "of a run that is read\tours\n");
  EXPECT_NE(disk_.bytes_of(kFiles.of_machine).find("while reading\tthis\n"), std::string::npos);
}

TEST_F(KeptChoicesTest, AMachineThatCannotKeepThemIsToldOnce) {
  io::make_folders(disk_, kFiles.of_machine);  // a folder in the place of the file
  KeptChoices kept(disk_, kFiles);
  device::choose("in spite of it", "this");
  EXPECT_THROW(kept.save(), Error);  // a run survives that and tells
  EXPECT_NE(disk_.bytes_of(kFiles.of_run).find("in spite of it\tthis\n"), std::string::npos);
  const long calls = disk_.calls();
  kept.save();
  EXPECT_EQ(disk_.calls(), calls);
}

TEST_F(KeptChoicesTest, AFileThatCannotBeOpenedHoldsNothing) {
  put(kFiles.of_machine, "out of reach\tyes\n");
  disk_.cut_power_after(disk_.calls());
  const KeptChoices kept(disk_, kFiles);
  EXPECT_FALSE(device::choice("out of reach"));
}

}  // namespace
}  // namespace norma
