#include "norma/io/digest.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace norma::io {
namespace {

Bytes bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// Known answers of XXH3 with 128 bits and seed 0.
TEST(Digest, KnownAnswers) {
  EXPECT_EQ(digest_of({}).text(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(digest_of(bytes_of("abc")).text(), "06b05ab6733a618578af5f94892f3950");
  std::string ramp(100000, '\0');
  for (std::size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<char>(i % 251);
  EXPECT_EQ(digest_of(bytes_of(ramp)).text(), "54182c58bbb1337c42c23aeead96750d");
}

TEST(Digest, TheCutsDoNotMatter) {
  const std::string text(10000, 'x');
  for (const std::size_t piece : {1UL, 7UL, 64UL, 241UL, 1024UL, 9999UL}) {
    Hasher hasher;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      hasher.add(bytes_of(text).subspan(at, std::min(piece, text.size() - at)));
    }
    EXPECT_EQ(hasher.digest(), digest_of(bytes_of(text))) << piece;
  }
}

TEST(Digest, LeadingZerosAreShown) {
  EXPECT_EQ((Digest{.high = 0, .low = 0x2a}).text(), "0000000000000000000000000000002a");
}

}  // namespace
}  // namespace norma::io
