#include "norma/text/visible.h"

#include <gtest/gtest.h>

#include "norma/io/strict_json.h"

namespace norma::text {
namespace {

TEST(Visible, PlainTextStaysAsItIs) { EXPECT_EQ(visible("Grüße, 世界 😀 ~"), "Grüße, 世界 😀 ~"); }

TEST(Visible, NothingDrivesTheTerminal) {
  EXPECT_EQ(visible("a\nb\tc\r\\"), "a\\nb\\tc\\r\\\\");
  EXPECT_EQ(visible(std::string_view("\0\x1b[31m\x7f", 7)), "\\x00\\x1b[31m\\x7f");
  EXPECT_EQ(visible("\xC2\x9B\xE2\x80\xAE"), "\\u{009b}\\u{202e}");
}

TEST(Visible, BrokenUtf8IsShownByteByByte) {
  EXPECT_EQ(visible("a\xFF\xC3z\xE2\x82"), "a\\xff\\xc3z\\xe2\\x82");
  std::string all;
  for (int byte = 255; byte >= 0; --byte) all += static_cast<char>(byte);
  EXPECT_EQ(io::first_bad_utf8(visible(all)), std::string_view::npos);
}

TEST(Visible, LinesMayStay) {
  const std::string text = "Line\n\ttab, naïve, 漢字, 😀, \\x1b";
  EXPECT_EQ(visible(text, Lines::many), text);
  EXPECT_EQ(visible("\x1b[2J\x07\r\x7f", Lines::many), "\\x1b[2J\\x07\\r\\x7f");
}

std::string byte_by_byte(const std::string& bytes) {
  WholeCharacters characters;
  std::string seen;
  for (const char byte : bytes) {
    const std::string part = characters.take(std::string_view(&byte, 1));
    if (!part.empty()) seen += "[" + part + "]";
  }
  return seen + characters.rest();
}

TEST(WholeCharacters, ACharacterComesWhenItIsWhole) {
  EXPECT_EQ(byte_by_byte("aé€😀b"), "[a][é][€][😀][b]");
}

TEST(WholeCharacters, BytesThatCannotBecomeOnePass) {
  EXPECT_EQ(byte_by_byte("\xFF"
                         "a"),
            "[\xFF][a]");
  EXPECT_EQ(byte_by_byte("\x80"), "[\x80]");
  EXPECT_EQ(byte_by_byte("\xE2\x82"
                         "a"),
            "[\xE2\x82"
            "a]");                                              // cut short by a letter
  EXPECT_EQ(byte_by_byte("\xC0\xAF"), "[\xC0][\xAF]");          // overlong
  EXPECT_EQ(byte_by_byte("\xED\xA0\x80"), "[\xED\xA0][\x80]");  // a surrogate
  EXPECT_EQ(byte_by_byte("\xF4\x90"), "[\xF4\x90]");            // beyond U+10FFFF
}

TEST(WholeCharacters, TheEndGivesWhatWaits) {
  WholeCharacters characters;
  EXPECT_EQ(characters.take("x\xF0\x9F"), "x");
  EXPECT_EQ(characters.rest(), "\xF0\x9F");
  EXPECT_EQ(characters.rest(), "");
}

}  // namespace
}  // namespace norma::text
