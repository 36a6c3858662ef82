#include "norma/io/strict_json.h"

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "tests/support/expect.h"

namespace norma::io {
namespace {

using test::throws;

std::string read_string(std::string_view text) { return StrictJson("f", text).string(); }
std::uint64_t read_integer(std::string_view text) {
  StrictJson json("f", text);
  const std::uint64_t value = json.integer();
  json.end();
  return value;
}

TEST(StrictJson, StringsAndTheirEscapes) {
  EXPECT_EQ(read_string(R"("a\"\\\/\b\f\n\r\tz")"), "a\"\\/\b\f\n\r\tz");
  EXPECT_EQ(read_string(R"("\u0041\u00e9\u20ac\ud83d\ude00")"), "A\u00e9\u20ac\U0001F600");
  EXPECT_EQ(read_string("\"γ⊙x̂\""), "γ⊙x̂");
}

TEST(StrictJson, BadStringsAreRefused) {
  for (const auto& [text, complaint] : std::initializer_list<std::pair<const char*, const char*>>{
           {"\"abc", "has no end"},
           {"\"a\nb\"", "raw byte 10"},
           {R"("\x41")", "no escape with 'x'"},
           {R"("\u12g4")", "four hexadecimal digits"},
           {R"("\ud83d")", "surrogate"},
           {R"("\ud83dA")", "surrogate"},
           {R"("\ud83d\u0041")", "surrogate"},
           {R"("\ude00")", "surrogate"},
           {"'a'", "expected '\"'"}}) {
    EXPECT_TRUE(throws<Error>([&, t = text] { read_string(t); }, {"f: JSON byte", complaint}))
        << text;
  }
}

TEST(StrictJson, IntegersKeepAll64Bits) {
  EXPECT_EQ(read_integer("0"), 0U);
  EXPECT_EQ(read_integer(" 9007199254740993 "), 9007199254740993U);  // 2^53 + 1: not a double
  EXPECT_EQ(read_integer("18446744073709551615"), 18446744073709551615U);
}

TEST(StrictJson, OtherNumbersAreRefused) {
  for (const auto& [text, complaint] : std::initializer_list<std::pair<const char*, const char*>>{
           {"18446744073709551616", "64 bits"},
           {"99999999999999999999", "64 bits"},
           {"-1", "found '-'"},
           {"-0", "found '-'"},
           {"+1", "found '+'"},
           {"01", "leading zero"},
           {"00", "leading zero"},
           {"1.0", "fraction"},
           {"1e3", "exponent"},
           {"1E3", "exponent"},
           {"NaN", "found 'N'"},
           {"true", "found 't'"},
           {"null", "found 'n'"},
           {"", "found the end"},
           {"1 2", "follows"},
           {"1/**/", "follows"}}) {
    EXPECT_TRUE(throws<Error>([&, t = text] { read_integer(t); }, {complaint})) << text;
  }
}

TEST(StrictJson, ObjectsAreVisitedInOrder) {
  StrictJson json("f", R"( { "b" : 1 , "a" : [ 2 , 3 ] , "c" : { } , "d" : [ ] } )");
  std::string seen;
  json.object([&](const std::string& key) {
    seen += key;
    if (key == "b") seen += std::to_string(json.integer());
    if (key == "a" || key == "d") json.array([&] { seen += std::to_string(json.integer()); });
    if (key == "c") json.object([&](const std::string&) { FAIL(); });
  });
  json.end();
  EXPECT_EQ(seen, "b1a23cd");
}

TEST(StrictJson, BrokenObjectsAreRefused) {
  for (const auto& [text, complaint] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"({"a":1,"a":2})", "\"a\" comes twice"},
           {R"({"a":1,"\u0061":2})", "\"a\" comes twice"},
           {R"({"a":1,})", "expected '\"'"},
           {R"({"a" 1})", "expected ':'"},
           {R"({"a":1 "b":2})", "expected '}'"},
           {R"({"a":1)", "found the end"},
           {R"({"a":1}x)", "follows"},
           {R"({a:1})", "expected '\"'"},
           {"{\"a\":1}\xff", "not UTF-8"},
           {"", "found the end"}}) {
    EXPECT_TRUE(throws<Error>(
        [&, t = text] {
          StrictJson json("f", t);
          json.object([&](const std::string&) { json.integer(); });
          json.end();
        },
        {complaint}))
        << text;
  }
}

TEST(StrictJson, ANulBehindTheEndIsNotTheEnd) {
  const std::string text("{}\0", 3);
  StrictJson json("f", text);
  json.object([](const std::string&) {});
  EXPECT_TRUE(throws<Error>([&] { json.end(); }, {"follows"}));
}

TEST(StrictJson, DepthIsLimited) {
  const auto dig = [](const std::string& text) {
    StrictJson json("f", text);
    const std::function<void()> deeper = [&] { json.array(deeper); };
    deeper();
    json.end();
  };
  dig("[[[[]]]]");
  EXPECT_TRUE(throws<Error>([&] { dig("[[[[[]]]]]"); }, {"deeper than 4"}));
  EXPECT_TRUE(throws<Error>([&] { dig(std::string(1000000, '[')); }, {"deeper than 4"}));
}

TEST(StrictJson, Utf8IsCheckedToTheLastBit) {
  for (const char* good : {"",
                           "abc",
                           "\xc2\x80",
                           "\xe0\xa0\x80",
                           "\xed\x9f\xbf",
                           "\xee\x80\x80",
                           "\xf0\x90\x80\x80",
                           "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(first_bad_utf8(good), std::string_view::npos) << good;
  }
  for (const char* bad : {"ab\x80",
                          "ab\xc0\x80",
                          "ab\xc1\xbf",
                          "ab\xc2",
                          "ab\xc2z",
                          "ab\xe0\x9f\xbf",
                          "ab\xed\xa0\x80",
                          "ab\xf0\x8f\xbf\xbf",
                          "ab\xf4\x90\x80\x80",
                          "ab\xf5\x80\x80\x80",
                          "ab\xff",
                          "ab\xe2\x82"}) {
    EXPECT_EQ(first_bad_utf8(bad), 2U) << bad;
  }
}

TEST(StrictJson, LongTextsAreCutBetweenCharacters) {
  EXPECT_EQ(json_string_start("short"), "\"short\"");
  for (std::size_t lead = 70; lead < 85; ++lead) {
    const std::string shown =
        json_string_start(std::string(lead, 'a') + std::string(100, 'b') + "γ");
    EXPECT_LT(shown.size(), 90U);
    const std::string greek = json_string_start(std::string(lead, 'a') + "γγγγγγγγγγ");
    EXPECT_EQ(first_bad_utf8(greek), std::string_view::npos) << lead;
    EXPECT_TRUE(greek.ends_with("…\"")) << greek;
  }
}

TEST(StrictJson, WrittenStringsAreReadBack) {
  std::string all;
  for (int c = 0; c < 128; ++c) all += static_cast<char>(c);
  all += "é€😀";
  EXPECT_EQ(read_string(json_string(all)), all);
}

}  // namespace
}  // namespace norma::io
