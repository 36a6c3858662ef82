// norma schemes from outside.
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace norma {
namespace {

TEST(CliSchemes, EveryRowOfTheMarkdownTableHasTwoCells) {
  const Outcome outcome = run_norma("schemes ngpt --markdown");  // its norms are written x/|x|
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  int rows = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('|')) continue;
    int bars = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '|' && (i == 0 || line[i - 1] != '\\')) ++bars;
    }
    EXPECT_EQ(bars, 3) << line;
    ++rows;
  }
  EXPECT_GT(rows, 20);
}

}  // namespace
}  // namespace norma
