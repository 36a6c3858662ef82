#include "norma/io/sha256.h"

#include <gtest/gtest.h>

namespace norma::io {
namespace {

TEST(Sha256, GivesThePublishedDigests) {  // FIPS 180-4 and its examples
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_of(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnHowBytesAreCut) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i);
  for (std::size_t size = 0; size <= text.size(); ++size) {
    const std::string whole = sha256_of(text.substr(0, size));
    Sha256 pieces;
    for (std::size_t at = 0; at < size;) {
      const std::size_t count = std::min(size - at, 1 + at % 67);
      pieces.add(std::as_bytes(std::span(text.data() + at, count)));
      at += count;
    }
    EXPECT_EQ(pieces.text(), whole) << size;
    EXPECT_EQ(pieces.text(), whole) << "asking changes nothing";
  }
}

}  // namespace
}  // namespace norma::io
