// Names for tests whose parameter is a text.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>

#include <gtest/gtest.h>

namespace norma::test {

/// The text with an underscore for everything that gtest does not take.
inline std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

}  // namespace norma::test
