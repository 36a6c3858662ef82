#include "norma/fetch/demo_corpus.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "norma/fetch/sets.h"
#include "norma/io/cache_folder.h"
#include "norma/io/file.h"
#include "norma/io/sha256.h"

namespace norma::fetch {
namespace {

TEST(DemoCorpus, AddressesComeInOrderAndOnALineEach) {
  EXPECT_EQ(
      demo_corpus({{"data/1801_b.txt", "Second. \n"}, {"data/1790_a.txt", "\x02 First."}}, ""),
      "First.\n<|endoftext|>\nSecond.\n");
}

TEST(DemoCorpus, HardWrappedLinesBecomeParagraphs) {
  EXPECT_EQ(demo_corpus({{"a", "Address."}},
                        "CHAPTER 1. Loomings.\n\nCall me\nIshmael. Some\nyears ago.\n\n\nThen\n"
                        "CHAPTER he said.\n\n\nCHAPTER 2. Next\nand more.\n\n"
                        "     Oh, jolly\n     is the gale,\n\nThe end"),
            "Address.\n<|endoftext|>\nCHAPTER 1. Loomings.\n\nCall me Ishmael. Some years ago.\n\n"
            "Then CHAPTER he said.\n<|endoftext|>\nCHAPTER 2. Next and more.\n\nOh, jolly\nis the "
            "gale,\n\nThe end\n");
}

/// The set itself, where it is at hand (norma data get demo).
TEST(DemoSet, HasTheBytesThatEveryMachineHas) {
  const Set& demo = known_set("demo");
  const std::string path = io::join(io::cache_folder(), "demo/corpus.txt");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  const std::string text =
      io::File(io::real_file_system(), path, io::OpenAs::read).text(std::uint64_t{1} << 30);
  EXPECT_EQ(text.size(), demo.files.front().bytes);
  EXPECT_EQ(io::sha256_of(text), demo.files.front().sha256);
  std::size_t documents = 1;
  for (std::size_t at = 0; (at = text.find("\n<|endoftext|>\n", at)) != std::string::npos; ++at) {
    ++documents;
  }
  EXPECT_EQ(documents, 233U + 135U);
}

}  // namespace
}  // namespace norma::fetch
