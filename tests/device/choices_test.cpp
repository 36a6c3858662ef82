#include "norma/device/choices.h"

#include <gtest/gtest.h>

namespace norma::device {
namespace {

TEST(Choices, AreFoundByName) {
  EXPECT_FALSE(choice("found by name"));
  choose("found by name", "the second");
  EXPECT_EQ(choice("found by name"), "the second");
}

TEST(Choices, ComeBackFromTheirText) {
  choose("back|8 x 8", "00ff");
  const std::string text = choices_text();
  EXPECT_NE(text.find("back|8 x 8\t00ff\n"), std::string::npos);
  add_choices(text);
  EXPECT_EQ(choices_text(), text);
}

TEST(Choices, WhatIsChosenStays) {
  choose("stays", "mine");
  add_choices("stays\tanother\nnew one\tits choice\n");
  EXPECT_EQ(choice("stays"), "mine");
  EXPECT_EQ(choice("new one"), "its choice");
}

TEST(Choices, ATextIsGivenOursWhereItHasNone) {
  choose("in both", "mine");
  choose("in ours", "mine");
  const std::string before = choices_text();
  const std::string all = choices_with("in both\ttheirs\nno tab\nin theirs\ttheirs\n");
  for (const char* line : {"in both\ttheirs\n", "in ours\tmine\n", "in theirs\ttheirs\n"}) {
    EXPECT_NE(all.find(line), std::string::npos) << all;
  }
  EXPECT_EQ(all.find("no tab"), std::string::npos);
  EXPECT_EQ(all.find("in both\tmine"), std::string::npos);
  EXPECT_EQ(choices_text(), before);
}

TEST(Choices, TheirNumberTellsWhetherThereIsSomethingNew) {
  choose("counted", "one");
  const std::size_t before = choices_made();
  add_choices("counted\tagain\nno tab\n");
  EXPECT_EQ(choices_made(), before);
  add_choices("counted too\tone\n");
  EXPECT_EQ(choices_made(), before + 1);
  choose("counted", "another");
  EXPECT_EQ(choices_made(), before + 2);
}

TEST(Choices, LinesOfAnotherFormAreLeftOut) {
  const std::string before = choices_text();
  add_choices("no tab\n\ntwo\ttabs\there\n");
  EXPECT_EQ(choices_text(), before);
  add_choices("without a line end\tat the end");
  EXPECT_EQ(choice("without a line end"), "at the end");
}

}  // namespace
}  // namespace norma::device
