#include "norma/train/kept_choices.h"

#include <gtest/gtest.h>

#include "norma/device/choices.h"
#include "norma/io/file.h"
#include "tests/support/memory_disk.h"

namespace norma {
namespace {

constexpr const char* kPath = "cache/norma/gpu_choices.txt";

TEST(KeptChoices, AreWrittenWhenSomethingNewWasChosenAndReadBack) {
  test::MemoryDisk disk;
  KeptChoices kept(disk, kPath);
  device::choose("kept", "this");
  kept.save();
  const std::string text = io::File(disk, kPath, io::OpenAs::read).text(1 << 20);
  EXPECT_EQ(text, device::choices_text());
  io::replace_file(disk, kPath, text + "kept by another run\tthat\n");
  KeptChoices next(disk, kPath);
  EXPECT_EQ(device::choice("kept by another run"), "that");
}

TEST(KeptChoices, NothingNewWritesNothing) {
  test::MemoryDisk disk;
  device::choose("before", "this");
  KeptChoices(disk, kPath).save();
  KeptChoices same(disk, kPath);
  io::replace_file(disk, kPath, "left alone\tyes\n");
  same.save();
  EXPECT_EQ(io::File(disk, kPath, io::OpenAs::read).text(1 << 20), "left alone\tyes\n");
}

}  // namespace
}  // namespace norma
