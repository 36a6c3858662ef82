#include "norma/fetch/invented_text.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "norma/io/sha256.h"

namespace norma::fetch {
namespace {

std::vector<std::string> pieces(std::string_view text, std::string_view between) {
  std::vector<std::string> all;
  while (true) {
    const std::size_t at = text.find(between);
    all.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return all;
    text.remove_prefix(at + between.size());
  }
}

const std::string& corpus() {
  static const std::string kText = invented_text({.bytes = 1'000'000});
  return kText;
}

TEST(InventedText, IsTheSameOnEveryMachine) {
  EXPECT_EQ(io::sha256_of(corpus()),
            "ccd7944ac21311a102d1ed7a8e7e7012c91118f636d665bbae90ae539106a132");
  EXPECT_EQ(invented_text({.bytes = 1'000'000}), corpus());
}

TEST(InventedText, HasTheSizeAskedFor) {
  for (const std::uint64_t bytes : {10'000UL, 54'321UL, 1'000'000UL}) {
    const std::string text = invented_text({.bytes = bytes});
    EXPECT_LE(text.size(), bytes);
    EXPECT_GT(text.size() + 6000, bytes);
    EXPECT_TRUE(text.ends_with(".\n") || text.ends_with("\"\n"));
    EXPECT_EQ(text, corpus().substr(0, text.size())) << "more bytes are more stories";
  }
}

TEST(InventedText, AnotherSeedTellsOtherStories) {
  const std::string other = invented_text({.bytes = 100'000, .seed = 2});
  const auto ours = pieces(corpus(), "\n");
  const std::set<std::string> lines(ours.begin(), ours.end());
  int shared = 0;
  const auto theirs = pieces(other, "\n");
  for (const std::string& line : theirs) shared += line.size() > 60 && lines.contains(line);
  EXPECT_EQ(shared, 0);
}

TEST(InventedText, IsPlainTextWithoutTracesOfTheGrammar) {
  for (const char c : corpus()) {
    ASSERT_TRUE(c == '\n' || (c >= ' ' && c <= '~'));
    ASSERT_TRUE(c != '{' && c != '}');
  }
  EXPECT_EQ(corpus().find("  "), std::string::npos);
  for (const char* wrong : {" a apple", " a old", " an tall", " a honest", "..", " ,", " ."}) {
    EXPECT_EQ(corpus().find(wrong), std::string::npos) << wrong;
  }
}

TEST(InventedText, HasManyDifferentSentences) {
  const auto stories = pieces(corpus(), "\n<|endoftext|>\n");
  EXPECT_GT(stories.size(), 400U);
  std::set<std::string> sentences;
  std::size_t count = 0;
  for (const std::string& story : stories) {
    for (const std::string& line : pieces(story, "\n")) {
      for (const std::string& sentence : pieces(line, ". ")) {
        ++count;
        sentences.insert(sentence);
      }
    }
  }
  EXPECT_GT(count, 10'000U);
  EXPECT_GT(sentences.size(), count / 2);
}

TEST(InventedText, FactsHoldInTheWholeCorpus) {
  std::map<std::string, std::set<std::string>> towns;
  for (const std::string& sentence : pieces(corpus(), ".")) {
    const std::size_t lived = sentence.find(" lived in ");
    if (lived == std::string::npos || lived == 0) continue;
    const std::size_t name = sentence.find_last_of(" \n", lived - 1) + 1;
    const std::size_t town = lived + std::string_view(" lived in ").size();
    towns[sentence.substr(name, lived - name)].insert(
        sentence.substr(town, sentence.find(',', town) - town));
  }
  EXPECT_EQ(towns.size(), 24U);
  for (const auto& [name, where] : towns) EXPECT_EQ(where.size(), 1U) << name;
}

int value_of(const std::string& word) {
  static const std::vector<std::string> kSmall = {
      "zero",     "one",     "two",     "three",     "four",     "five",    "six",
      "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
      "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
  static const std::map<std::string, int> kTens = {
      {"twenty", 20}, {"thirty", 30}, {"forty", 40}, {"fifty", 50}};
  const std::size_t dash = std::min(word.find('-'), word.size());
  if (const auto ten = kTens.find(word.substr(0, dash)); ten != kTens.end()) {
    return ten->second + (dash == word.size() ? 0 : value_of(word.substr(dash + 1)));
  }
  return static_cast<int>(std::find(kSmall.begin(), kSmall.end(), word) - kSmall.begin());
}

TEST(InventedText, SumsAreRight) {
  int seen = 0;
  for (std::string said : pieces(corpus(), "\"")) {
    const std::size_t plus = said.find(" and ");
    const std::size_t equals = said.find(" make ");
    if (plus == std::string::npos || equals == std::string::npos) continue;
    said.front() = static_cast<char>(said.front() - 'A' + 'a');
    const std::size_t end = said.find(',');
    EXPECT_EQ(value_of(said.substr(0, plus)) + value_of(said.substr(plus + 5, equals - plus - 5)),
              value_of(said.substr(equals + 6, end - equals - 6)))
        << said;
    ++seen;
  }
  EXPECT_GT(seen, 50);
}

TEST(InventedText, VerbsAgreeWithTheirSubjects) {
  EXPECT_NE(corpus().find(" sailor sings "), std::string::npos);
  EXPECT_NE(corpus().find(" sailors sing "), std::string::npos);
  EXPECT_EQ(corpus().find(" sailor sing "), std::string::npos);
  EXPECT_EQ(corpus().find(" sailors sings "), std::string::npos);
}

}  // namespace
}  // namespace norma::fetch
