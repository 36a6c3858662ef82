#include "norma/fetch/tar.h"

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "tests/support/expect.h"
#include "tests/support/memory_disk.h"
#include "tests/support/tar_archive.h"

namespace norma::fetch {
namespace {

using test::tar_end;
using test::tar_member;
using test::throws;

Members read(const std::string& bytes, const std::string& suffix = "") {
  test::MemoryDisk disk;
  disk.put("a.tar", bytes);
  return read_tar(*io::open_source(disk, "a.tar"),
                  [&](std::string_view name) { return name.ends_with(suffix); });
}

TEST(Tar, GivesTheMembersThatAreWanted) {
  std::string archive;
  Members want;
  for (const std::size_t bytes : {0UL, 1UL, 511UL, 512UL, 513UL, 5000UL}) {
    const std::string name = say("package/", bytes, ".txt");
    want[name] = std::string(bytes, static_cast<char>('a' + bytes % 26));
    archive += tar_member({.name = name, .contents = want[name]});
    archive += tar_member({.name = say("package/", bytes, ".json"), .contents = "{}"});
  }
  EXPECT_EQ(read(archive + tar_end(), ".txt"), want);
}

TEST(Tar, PassesOverWhatIsNoRegularFile) {
  const std::string archive = tar_member({.name = "d/", .contents = "", .kind = '5'}) +
                              tar_member({.name = "link", .contents = "", .kind = '2'}) +
                              tar_member({.name = "note", .contents = "9 mtime=1", .kind = 'x'}) +
                              tar_member({.name = "old", .contents = "1", .kind = '\0'}) +
                              tar_member({.name = "b", .contents = "2", .prefix = "far/down"});
  EXPECT_EQ(read(archive + tar_end()), (Members{{"old", "1"}, {"far/down/b", "2"}}));
}

TEST(Tar, EveryTruncationIsNoticed) {
  const std::string archive = tar_member({.name = "a", .contents = std::string(700, 'x')}) +
                              tar_member({.name = "b", .contents = "y"});
  for (std::size_t size = 0; size < archive.size() + 512; size += 7) {
    EXPECT_TRUE(throws<Error>([&] { read((archive + tar_end()).substr(0, size)); }, {"a.tar"}))
        << size;
  }
}

TEST(Tar, EveryFlippedBitOfAHeaderIsNoticed) {
  const std::string archive = tar_member({.name = "a", .contents = "x"}) + tar_end();
  for (std::size_t bit = 0; bit < std::size_t{8} * 512; ++bit) {
    std::string spoilt = archive;
    spoilt[bit / 8] = static_cast<char>(spoilt[bit / 8] ^ (1 << (bit % 8)));
    try {
      EXPECT_EQ(read(spoilt), (Members{{"a", "x"}})) << bit;  // a blank of the checksum
      EXPECT_GE(bit / 8, 148U);
      EXPECT_LT(bit / 8, 156U);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("a.tar"), std::string::npos);
    }
  }
}

TEST(Tar, HostileArchivesAreRefused) {
  for (const char* name : {"/etc/passwd", "../x", "package/../../x", "a/.."}) {
    EXPECT_TRUE(
        throws<Error>([&] { read(tar_member({.name = name, .contents = "x"}) + tar_end()); },
                      {"a.tar is no sound tar archive", name}));
  }
  const std::string twice = tar_member({.name = "a", .contents = "x"});
  EXPECT_TRUE(throws<Error>([&] { read(twice + twice + tar_end()); }, {"holds a twice"}));
  EXPECT_TRUE(throws<Error>([&] { read(std::string(600, 'x')); }, {"checksum of a header"}));
  // A size of 8 GiB less one with nothing behind it: refused before anything is reserved.
  std::string large = tar_member({.name = "a", .contents = ""});
  large.replace(124, 11, "77777777777");
  std::size_t sum = 0;
  large.replace(148, 8, "        ");
  for (const char c : large) sum += static_cast<unsigned char>(c);
  char digits[16];
  std::snprintf(digits, sizeof digits, "%06zo", sum);
  large.replace(148, 7, digits, 7);
  EXPECT_TRUE(throws<Error>([&] { read(large + tar_end()); }, {"larger than any that we know"}));
}

}  // namespace
}  // namespace norma::fetch
