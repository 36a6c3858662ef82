#include "norma/text/words.h"

#include <gtest/gtest.h>

#include "tests/text/reference.h"

namespace norma::text {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  static const WordScanner kScanner;
  std::vector<std::string> words;
  std::size_t end = 0;
  for (std::size_t at = 0; at < text.size(); at = end) {
    end = kScanner.end_of_word(text, at);
    if (end <= at || end > text.size()) throw std::logic_error("the scanner stands still");
    words.emplace_back(text.substr(at, end - at));
  }
  return words;
}

using Words = std::vector<std::string>;

TEST(Words, AreThoseOfThePublishedPattern) {
  EXPECT_EQ(words_of(""), Words{});
  EXPECT_EQ(words_of("Hello world"), (Words{"Hello", " world"}));
  EXPECT_EQ(words_of("I'll don't 'S"), (Words{"I", "'ll", " don", "'t", " '", "S"}));
  EXPECT_EQ(words_of("a  b"), (Words{"a", " ", " b"}));
  EXPECT_EQ(words_of("a\n\nb"), (Words{"a", "\n", "\n", "b"}));
  EXPECT_EQ(words_of("a \n"), (Words{"a", " \n"}));
  EXPECT_EQ(words_of("x+=10; "), (Words{"x", "+=", "10", ";", " "}));
  EXPECT_EQ(words_of("'"), (Words{"'"}));
  EXPECT_EQ(words_of("!'s"), (Words{"!'", "s"}));
}

TEST(Words, AgreeWithPcre2OnNastyText) {
  Dice dice(1);
  for (int i = 0; i < 20000; ++i) {
    const std::string text = nasty_text(dice, dice.roll(12));
    ASSERT_EQ(words_of(text), reference_words(text)) << testing::PrintToString(text);
  }
}

TEST(Words, AgreeWithPcre2OnRandomBytes) {
  Dice dice(2);
  for (int i = 0; i < 5000; ++i) {
    const std::string text = random_bytes(dice, dice.roll(40));
    ASSERT_EQ(words_of(text), reference_words(text)) << testing::PrintToString(text);
  }
}

std::string utf8_of(unsigned c) {
  const auto tail = [c](int shift) { return static_cast<char>(0x80U | ((c >> shift) & 63U)); };
  if (c < 0x800) return {static_cast<char>(0xC0U | (c >> 6)), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0U | (c >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xF0U | (c >> 18)), tail(12), tail(6), tail(0)};
}

/// Every character alone between letters, between spaces, and before a digit.
TEST(Words, AgreeWithPcre2OnEveryCharacter) {
  std::string text;
  for (unsigned c = 0x80; c < 0x110000; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    const std::string character = utf8_of(c);
    for (const std::string& part : {std::string("a"),
                                    character,
                                    std::string("b "),
                                    character,
                                    std::string("1"),
                                    character,
                                    std::string("!")}) {
      text += part;
    }
  }
  ASSERT_EQ(words_of(text), reference_words(text));
}

TEST(Words, ClassesAreUnicodes) {
  const UnicodeClasses& classes = UnicodeClasses::get();
  EXPECT_EQ(classes.of('a'), CharClass::letter);
  EXPECT_EQ(classes.of(0x4E2D), CharClass::letter);
  EXPECT_EQ(classes.of(0x0661), CharClass::number);
  EXPECT_EQ(classes.of(0x00BD), CharClass::number);
  EXPECT_EQ(classes.of(0x0085), CharClass::space);
  EXPECT_EQ(classes.of(0x3000), CharClass::space);
  EXPECT_EQ(classes.of(0x1C), CharClass::other);    // str.isspace() of Python says space
  EXPECT_EQ(classes.of(0x180E), CharClass::other);  // \s of PCRE2 says space
  EXPECT_EQ(classes.of(0xFEFF), CharClass::other);  // \s of JavaScript says space
  EXPECT_EQ(classes.of(0x0301), CharClass::other);
  EXPECT_EQ(classes.of(0x10FFFF), CharClass::other);
}

/// Cutting at every safe place gives the words of the whole.
TEST(Cuts, ChangeNoWord) {
  Dice dice(3);
  int cuts = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::string text = nasty_text(dice, 20);
    const Words whole = reference_words(text);
    for (std::size_t at = next_cut(text, 0); at < text.size(); at = next_cut(text, at + 1)) {
      Words halves = reference_words(std::string_view(text).substr(0, at));
      for (std::string& word : reference_words(std::string_view(text).substr(at))) {
        halves.push_back(std::move(word));
      }
      ASSERT_EQ(halves, whole) << testing::PrintToString(text) << " cut at " << at;
      ++cuts;
    }
  }
  EXPECT_GT(cuts, 5000);
}

TEST(Cuts, AreFoundFromBothEnds) {
  EXPECT_EQ(next_cut("ab cd ef", 0), 2U);
  EXPECT_EQ(next_cut("ab cd ef", 3), 5U);
  EXPECT_EQ(next_cut("ab cd ef", 6), 8U);
  EXPECT_EQ(last_cut("ab cd ef"), 5U);
  EXPECT_EQ(last_cut("  ab"), 0U);
  EXPECT_EQ(last_cut(""), 0U);
  EXPECT_EQ(last_cut("é x"), 0U);  // what stands before must be ASCII
}

}  // namespace
}  // namespace norma::text
