#include "norma/base/json_value.h"

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "norma/base/text.h"

namespace norma {
namespace {

using Kind = JsonValue::Kind;

std::string complaint(const std::string& text, const JsonLimits& limits = {}) {
  try {
    parse_json("x.json", text, limits);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(JsonValue, KeepsKindsValuesAndOrder) {
  const JsonValue value = parse_json(
      "x.json",
      R"({"b":[1,-2,2.5,true,null,"\u00e9\ud83d\ude00"],"a":{},"big":18446744073709551615})");
  ASSERT_EQ(value.kind, Kind::object);
  ASSERT_EQ(value.members.size(), 3U);
  EXPECT_EQ(value.members[0].key, "b");
  const std::vector<JsonValue>& items = value.members[0].value.items;
  ASSERT_EQ(items.size(), 6U);
  EXPECT_EQ(items[0].integer, 1);
  EXPECT_EQ(items[1].integer, -2);
  EXPECT_EQ(items[2].kind, Kind::number);
  EXPECT_EQ(items[2].number, 2.5);
  EXPECT_TRUE(items[3].boolean);
  EXPECT_EQ(items[4].kind, Kind::null);
  EXPECT_EQ(items[5].text, "é😀");
  EXPECT_EQ(value.find("a")->kind, Kind::object);
  EXPECT_EQ(value.find("big")->kind, Kind::number);
  EXPECT_EQ(value.find("c"), nullptr);
  EXPECT_EQ(items[0].find("a"), nullptr);
}

TEST(JsonValue, RefusesWhatIsNotJson) {
  for (const char* text :
       {"", "{", "[1,]", "{\"a\":1}x", "{a:1}", "\"\xff\"", "\"\\ud800\"", "// c", "NaN", "01"}) {
    EXPECT_NE(complaint(text).find("x.json: this is not JSON"), std::string::npos) << text;
  }
}

TEST(JsonValue, NamesTheByteWhereItGoesWrong) {
  EXPECT_EQ(complaint("[1,2,x]"), "x.json: this is not JSON; it goes wrong at byte 6.");
}

TEST(JsonValue, RefusesAKeyThatComesTwiceAtAnyDepth) {
  EXPECT_NE(complaint(R"({"a":1,"b":2,"a":1})").find("\"a\" comes twice"), std::string::npos);
  EXPECT_NE(complaint(R"([{"x":{"k":1,"k":2}}])").find("\"k\" comes twice"), std::string::npos);
  EXPECT_EQ(complaint(R"([{"a":1},{"a":2}])"), "");
}

TEST(JsonValue, LimitsDepthAndSize) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(complaint(nested(5), {.depth = 5}), "");
  EXPECT_NE(complaint(nested(6), {.depth = 5}).find("more than 5 levels"), std::string::npos);
  EXPECT_NE(complaint(std::string(2000000, '[')).find("more than 32 levels"), std::string::npos);
  EXPECT_EQ(complaint("[1,2]", {.bytes = 5}), "");
  EXPECT_NE(complaint("[1,23]", {.bytes = 5}).find("at most 5"), std::string::npos);
}

}  // namespace
}  // namespace norma
