#include "norma/io/mapped_file.h"

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "tests/support/expect.h"
#include "tests/support/memory_disk.h"
#include "tests/support/temp_folder.h"

namespace norma::io {
namespace {

using test::MemoryDisk;
using test::TempFolder;
using test::throws;

std::string text_of(const MappedFile& file) {
  const Bytes bytes = file.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(MappedFile, IsTheFile) {
  const TempFolder folder;
  const std::string contents(100000, 'x');
  replace_file(real_file_system(), folder / "a", contents + "end");
  const MappedFile file(real_file_system(), folder / "a");
  EXPECT_EQ(text_of(file), contents + "end");
}

TEST(MappedFile, OutlivesTheNameOfTheFile) {
  const TempFolder folder;
  replace_file(real_file_system(), folder / "a", "old");
  const MappedFile file(real_file_system(), folder / "a");
  replace_file(real_file_system(), folder / "a", "brand new");
  EXPECT_EQ(text_of(file), "old");
}

TEST(MappedFile, IsReadWhereItCannotBeMapped) {
  MemoryDisk disk;
  disk.put("a", "some bytes");
  EXPECT_EQ(text_of(MappedFile(disk, "a")), "some bytes");
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  const TempFolder folder;
  replace_file(real_file_system(), folder / "a", "");
  EXPECT_TRUE(MappedFile(real_file_system(), folder / "a").bytes().empty());
}

TEST(MappedFile, OnlyRegularFilesAreMapped) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  FileSystem& disk = real_file_system();
  EXPECT_TRUE(throws<Error>([&] { MappedFile(disk, folder / "pipe"); }, {"not a regular file"}));
  EXPECT_TRUE(throws<Error>([&] { MappedFile(disk, folder.path()); }, {"not a regular file"}));
  EXPECT_TRUE(throws<FileError>([&] { MappedFile(disk, folder / "none"); }, {"(ENOENT)"}));
}

}  // namespace
}  // namespace norma::io
