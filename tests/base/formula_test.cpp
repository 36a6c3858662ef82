#include "norma/base/formula.h"

#include <cmath>

#include <gtest/gtest.h>

#include "norma/base/error.h"

namespace norma {
namespace {

constexpr FormulaVariable kSizes[] = {{"d", 64}, {"dh", 16}, {"L", 12}};

double value(std::string_view text) { return evaluate_formula(text, kSizes); }

TEST(Formula, ArithmeticFollowsTheUsualOrder) {
  EXPECT_DOUBLE_EQ(value("1 + 2*3 - 4/8"), 6.5);
  EXPECT_DOUBLE_EQ(value("2^3^2"), 512);
  EXPECT_DOUBLE_EQ(value("-2^2"), -4);
  EXPECT_DOUBLE_EQ(value("2^-1"), 0.5);
  EXPECT_DOUBLE_EQ(value("(1+2)*3"), 9);
  EXPECT_DOUBLE_EQ(value("1.5e-3"), 1.5e-3);
}

TEST(Formula, NamesAndFunctions) {
  EXPECT_DOUBLE_EQ(value("1/sqrt(d)"), 0.125);
  EXPECT_DOUBLE_EQ(value("(2*L)^(1/4)"), std::pow(24.0, 0.25));
  EXPECT_DOUBLE_EQ(value("floor(0.3*L)"), 3);
  EXPECT_DOUBLE_EQ(value("max(dh, d) - min(dh, d)"), 48);
  EXPECT_DOUBLE_EQ(value("ln(exp(2)) + log2(8)"), 5);
}

TEST(Formula, BadOnesAreRefusedWithASentence) {
  for (const char* text : {"",
                           "1 +",
                           "2 d",
                           "sqrt d",
                           "sqrt(d",
                           "width",
                           "sin(d)",
                           "min(d)",
                           "1/0",
                           "()",
                           "1e999",
                           "$"}) {
    EXPECT_THROW(value(text), RequestError) << text;
  }
  EXPECT_THROW(value(std::string(201, '(')), RequestError);
  try {
    value("1/sqrt(dx)");
    FAIL();
  } catch (const RequestError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean d"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace norma
