#include "norma/base/json_line.h"

#include <limits>

#include <gtest/gtest.h>

namespace norma {
namespace {

TEST(JsonLine, KeepsTheOrderOfItsKeysAndTheKindsOfItsValues) {
  JsonLine line;
  line.add("name", "gpt-d128")
      .add("steps", 20)
      .add("ms", 1.5)
      .add("ok", true)
      .add("big", Index{1} << 40);
  EXPECT_EQ(line.text(),
            R"({"name":"gpt-d128","steps":20,"ms":1.5,"ok":true,"big":1099511627776})");
}

TEST(JsonLine, EmptyIsAnObject) { EXPECT_EQ(JsonLine().text(), "{}"); }

TEST(JsonLine, EscapesWhatWouldBreakTheLine) {
  JsonLine line;
  line.add("say \"it\"", "a\\b\nc\td\x01");
  EXPECT_EQ(line.text(), R"({"say \"it\"":"a\\b\nc\td\u0001"})");
  EXPECT_EQ(line.text().find('\n'), std::string::npos);
}

TEST(JsonLine, KeepsLettersBeyondAscii) {
  JsonLine line;
  line.add("rule", "γ⊙x̂");
  EXPECT_EQ(line.text(), R"({"rule":"γ⊙x̂"})");
}

TEST(JsonLine, NumbersKeepTheirDigitsAndNonFiniteOnesAreNull) {
  JsonLine line;
  line.add("third", 1.0 / 3).add("nan", std::numeric_limits<double>::quiet_NaN());
  line.add("inf", std::numeric_limits<double>::infinity());
  EXPECT_EQ(line.text(), R"({"third":0.3333333333333333,"nan":null,"inf":null})");
}

TEST(JsonLine, AKeyGivenTwiceKeepsTheLastValue) {
  JsonLine line;
  line.add("a", 1).add("b", 2).add("a", 3);
  EXPECT_EQ(line.text(), R"({"a":3,"b":2})");
}

}  // namespace
}  // namespace norma
