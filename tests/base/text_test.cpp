#include "norma/base/text.h"

#include <gtest/gtest.h>

namespace norma {
namespace {

TEST(Text, SayJoinsWordsAndNumbers) {
  EXPECT_EQ(say("wanted ", 3, ", got ", Index{-4}, " of ", std::string("x"), " at ", 0.25),
            "wanted 3, got -4 of x at 0.25");
  EXPECT_EQ(say(), "");
  EXPECT_EQ(say(1e-7, " ", 1234567.0, " ", 1.0 / 3), "1e-07 1.23457e+06 0.333333");
}

TEST(Text, NumbersInColumns) {
  EXPECT_EQ(fixed(3.14159, 2), "3.14");
  EXPECT_EQ(fixed(-0.5, 0), "-0");
  EXPECT_EQ(scientific(31.4, 1), "3.1e+01");
  EXPECT_EQ(pad_left("ab", 4), "  ab");
  EXPECT_EQ(pad_right("ab", 4), "ab  ");
  EXPECT_EQ(pad_left("abcde", 4), "abcde");
  EXPECT_EQ(pad_right("abcde", 4), "abcde");
}

TEST(Text, HumanBytes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.0 KiB");
  EXPECT_EQ(human_bytes(1.5 * 1024 * 1024), "1.5 MiB");
  EXPECT_EQ(human_bytes(3.25 * 1024 * 1024 * 1024), "3.2 GiB");
  EXPECT_EQ(human_bytes(2.0e3 * 1024 * 1024 * 1024 * 1024), "2000.0 TiB");  // the largest unit
}

TEST(Text, NearestWordFindsTypingMistakes) {
  const std::vector<std::string> words = {"rms_norm", "layer_norm", "attention", "linear"};
  EXPECT_EQ(nearest_word("rmsnorm", words), "rms_norm");
  EXPECT_EQ(nearest_word("atention", words), "attention");
  EXPECT_EQ(nearest_word("lienar", words), "linear");
  EXPECT_EQ(nearest_word("linear", words), "linear");
  EXPECT_EQ(nearest_word("layer_norms", words), "layer_norm");
}

TEST(Text, NearestWordIsSilentWhenNothingIsNear) {
  EXPECT_EQ(nearest_word("embedding", {"rms_norm", "linear"}), "");
  EXPECT_EQ(nearest_word("anything", {}), "");
}

}  // namespace
}  // namespace norma
