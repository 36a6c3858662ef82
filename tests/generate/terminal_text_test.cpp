// What a terminal gets to see of a model's bytes.
#include "norma/generate/terminal_text.h"

#include <gtest/gtest.h>

namespace norma {
namespace {

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

TEST(VisibleText, LeavesTextAlone) {
  const std::string text = "Line\n\ttab, naïve, 漢字, 😀, \\x1b";
  EXPECT_EQ(visible_text(text), text);
}

TEST(VisibleText, ShowsWhatCouldDriveATerminal) {
  EXPECT_EQ(visible_text("\x1b[2J\x07\r\x7f"), "\\x1b[2J\\x07\\x0d\\x7f");
  EXPECT_EQ(visible_text(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(visible_text("\xC2\x9B"
                         "31m"),
            "\\x9b31m");                               // C1's own escape
  EXPECT_EQ(visible_text("\xE2\x80\xAE"), "\\u202e");  // right to left from here
  EXPECT_EQ(visible_text("\x9B\xFF\xE2\x82"), "\\x9b\\xff\\xe2\\x82");
}

}  // namespace
}  // namespace norma
