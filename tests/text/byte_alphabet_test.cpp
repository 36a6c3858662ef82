#include "norma/text/byte_alphabet.h"

#include <set>

#include <gtest/gtest.h>

namespace norma::text {
namespace {

TEST(ByteAlphabet, SpellsAsGpt2Does) {
  EXPECT_EQ(spell(" the\n"), "ĠtheĊ");
  EXPECT_EQ(spell(std::string_view("\0\x7F\xAD\xFF", 4)), "ĀġŃÿ");
}

TEST(ByteAlphabet, HasThePublishedIds) {
  EXPECT_EQ(byte_of_id(0), '!');
  EXPECT_EQ(byte_of_id(93), '~');
  EXPECT_EQ(byte_of_id(94), 0xA1);
  EXPECT_EQ(byte_of_id(187), 0xFF);
  EXPECT_EQ(byte_of_id(188), 0x00);
  EXPECT_EQ(byte_of_id(198), '\n');
  EXPECT_EQ(byte_of_id(220), ' ');
  EXPECT_EQ(byte_of_id(255), 0xAD);
  std::set<int> bytes;
  for (int id = 0; id < 256; ++id) bytes.insert(byte_of_id(id));
  EXPECT_EQ(bytes.size(), 256U);
}

TEST(ByteAlphabet, EveryByteReadsBack) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(unspell(spell(all)), all);
}

TEST(ByteAlphabet, OtherCharactersStandForNoByte) {
  for (const char* text :
       {" ", "\n", "\x7F", "\xC2\xA0", "\xC2\xAD", "\xC5\x84", "好", "\xC4", "\xFF", "\x80"}) {
    EXPECT_EQ(unspell(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace norma::text
