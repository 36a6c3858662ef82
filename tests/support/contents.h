// A file of a test as text.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

namespace norma::test {

/// Empty for a file that is not there.
inline std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace norma::test
