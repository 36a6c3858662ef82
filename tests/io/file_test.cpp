#include "norma/io/file.h"

#include <cerrno>
#include <csignal>
#include <filesystem>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "tests/support/expect.h"
#include "tests/support/faulty_disk.h"
#include "tests/support/memory_disk.h"
#include "tests/support/temp_folder.h"

namespace norma::io {
namespace {

using test::FaultyDisk;
using test::MemoryDisk;
using test::TempFolder;
using test::throws;

void write_file(FileSystem& disk, const std::string& path, std::string_view text) {
  File file(disk, path, OpenAs::create_new);
  write_text(file, text);
  file.sync();
  file.close();
}

std::string read_file(FileSystem& disk, const std::string& path) {
  return File(disk, path, OpenAs::read).text(1 << 20);
}

TEST(File, WhatWasWrittenIsRead) {
  const TempFolder folder;
  write_file(real_file_system(), folder / "a", "some text");
  EXPECT_EQ(read_file(real_file_system(), folder / "a"), "some text");
}

TEST(File, AnExistingFileIsNeverOverwritten) {
  const TempFolder folder;
  write_file(real_file_system(), folder / "a", "old");
  EXPECT_TRUE(throws<FileError>([&] { write_file(real_file_system(), folder / "a", "new"); },
                                {"cannot create", folder / "a", "(EEXIST)"}));
  EXPECT_EQ(read_file(real_file_system(), folder / "a"), "old");
}

TEST(File, AMissingFileIsNamed) {
  const TempFolder folder;
  EXPECT_TRUE(throws<FileError>([&] { read_file(real_file_system(), folder / "none"); },
                                {"cannot open", folder / "none", "No such file", "(ENOENT)"}));
}

TEST(File, ShortWritesAndReadsAreCompleted) {
  MemoryDisk memory;
  for (const std::size_t bite : {1UL, 2UL, 3UL, 7UL}) {
    FaultyDisk disk(memory, {.bite = bite});
    const std::string path = say("f", bite);
    write_file(disk, path, "0123456789");
    EXPECT_EQ(memory.bytes_of(path), "0123456789");
    EXPECT_EQ(read_file(disk, path), "0123456789");
  }
}

TEST(File, InterruptedCallsAreMadeAgainButNotASync) {
  MemoryDisk memory;
  int refused = 0;
  for (long n = 1;; ++n) {
    FaultyDisk disk(memory, {.at = n, .error = EINTR});
    const std::string path = say("f", n);
    try {
      write_file(disk, path, "abc");
      EXPECT_EQ(memory.bytes_of(path), "abc");
    } catch (const FileError& error) {
      EXPECT_NE(std::string(error.what()).find("make durable"), std::string::npos) << error.what();
      ++refused;
    }
    if (!disk.struck()) break;
  }
  EXPECT_EQ(refused, 1);
}

TEST(File, AFullDiskGetsAHint) {
  MemoryDisk memory;
  FaultyDisk disk(memory, {.at = 2, .error = ENOSPC});
  EXPECT_TRUE(
      throws<FileError>([&] { write_file(disk, "big", "abc"); },
                        {"cannot write big: No space left on device (ENOSPC). Free some space"}));
}

TEST(File, AFailedCloseIsReportedAndAnInterruptedOneIsDone) {
  MemoryDisk memory;
  FaultyDisk failing(memory, {.at = 4, .error = EIO});  // after open, write and sync
  EXPECT_TRUE(
      throws<FileError>([&] { write_file(failing, "a", "x"); }, {"cannot close a", "(EIO)"}));
  FaultyDisk interrupted(memory, {.at = 4, .error = EINTR});
  write_file(interrupted, "b", "x");
  EXPECT_EQ(interrupted.calls(), 4);
}

TEST(File, ReadingPastTheEndSaysWhere) {
  MemoryDisk disk;
  disk.put("a", "12345");
  const File file(disk, "a", OpenAs::read);
  std::byte into[8];
  EXPECT_TRUE(throws<Error>([&] { file.read(2, into); }, {"a ended at byte 5", "5 more"}));
}

TEST(File, APipeDoesNotMakeTheReaderWait) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(throws<Error>([&] { read_file(real_file_system(), folder / "pipe"); },
                            {"pipe is not a regular file"}));
}

TEST(File, RenamingReplacesNothing) {
  const TempFolder folder;
  FileSystem& disk = real_file_system();
  make_folder(disk, folder / "a");
  make_folder(disk, folder / "b");
  EXPECT_TRUE(throws<FileError>([&] { rename(disk, folder / "a", folder / "b"); }, {"(EEXIST)"}));
  rename(disk, folder / "a", folder / "c");
  EXPECT_EQ(list_folder(disk, folder.path()), (std::vector<std::string>{"b", "c"}));
}

TEST(File, RemovingAFolderFollowsNoLink) {
  const TempFolder folder;
  FileSystem& disk = real_file_system();
  make_folder(disk, folder / "precious");
  write_file(disk, folder / "precious/weights", "keep");
  make_folder(disk, folder / "old");
  std::filesystem::create_symlink(folder / "precious/weights", folder / "old/file");
  std::filesystem::create_directory_symlink(folder / "precious", folder / "old/folder");
  std::filesystem::create_directory_symlink(folder / "precious", folder / "link");
  remove_flat_folder(disk, folder / "old");
  remove_flat_folder(disk, folder / "link");
  EXPECT_EQ(list_folder(disk, folder.path()), (std::vector<std::string>{"precious"}));
  EXPECT_EQ(read_file(disk, folder / "precious/weights"), "keep");
}

TEST(File, FoldersInsideAreNotEntered) {
  MemoryDisk disk;
  make_folder(disk, "old");
  make_folder(disk, "old/mine");
  EXPECT_TRUE(throws<FileError>([&] { remove_flat_folder(disk, "old"); }, {"old/mine"}));
  EXPECT_EQ(list_folder(disk, "old"), (std::vector<std::string>{"mine"}));
}

TEST(File, ParentsOfPaths) {
  EXPECT_EQ(parent_of("a/b/c"), "a/b");
  EXPECT_EQ(parent_of("a/b/"), "a");
  EXPECT_EQ(parent_of("a"), ".");
  EXPECT_EQ(parent_of("/a"), "/");
  EXPECT_EQ(parent_of("/"), "/");
  EXPECT_EQ(join("a", "b"), "a/b");
  EXPECT_EQ(join("a/", "b"), "a/b");
}

TEST(File, PlainNamesStayInTheirFolder) {
  for (const std::string name : {"a", "model.safetensors", "a..b", "ä"}) {
    EXPECT_TRUE(is_plain_file_name(name)) << name;
  }
  for (const std::string& name : {std::string(),
                                  std::string("."),
                                  std::string(".."),
                                  std::string("../a"),
                                  std::string("a/b"),
                                  std::string("/a"),
                                  std::string(".hidden"),
                                  std::string("a\0b", 3),
                                  std::string(256, 'a')}) {
    EXPECT_FALSE(is_plain_file_name(name)) << name;
  }
}

// In a child, because limits and signal handlers belong to the whole process.
TEST(File, AFileSizeLimitIsAnErrorAndNotADeath) {
  const TempFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{.rlim_cur = 1000, .rlim_max = 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    turn_file_size_signals_into_errors();
    try {
      write_file(real_file_system(), folder / "big", std::string(5000, 'x'));
    } catch (const FileError& error) {
      ::_exit(error.code() == EFBIG ? 7 : 8);
    }
    ::_exit(9);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(File, ReplacingIsWholeAndLeavesNothingBeside) {
  const TempFolder folder;
  FileSystem& disk = real_file_system();
  replace_file(disk, folder / "a", "old");
  replace_file(disk, folder / "a", "new contents");
  EXPECT_EQ(read_file(disk, folder / "a"), "new contents");
  EXPECT_TRUE(throws<FileError>([&] { replace_file(disk, folder / "no/file", "x"); }, {"ENOENT"}));
  EXPECT_TRUE(throws<FileError>([&] { replace_file(disk, folder.path(), "x"); }, {folder.path()}));
  EXPECT_EQ(list_folder(disk, folder.path()), std::vector<std::string>{"a"});
}

TEST(File, AReplacementThatFailsLeavesTheOldOne) {
  for (long n = 1;; ++n) {
    MemoryDisk memory;
    memory.put("a", "old");
    FaultyDisk disk(memory, {.at = n, .error = EIO});
    try {
      replace_file(disk, "a", "new");
      if (!disk.struck()) break;
    } catch (const FileError&) {
    }
    const std::string found = memory.bytes_of("a");
    EXPECT_TRUE(found == "old" || found == "new") << n;
  }
}

}  // namespace
}  // namespace norma::io
