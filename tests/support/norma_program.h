// Where the built program is, for tests that run it.
#pragma once

#include <cstdlib>
#include <string>

namespace norma::test {

/// The environment variable wins: a bundle moves.
inline std::string norma_program() {
  const char* moved = std::getenv("NORMA_BINARY");
  return moved != nullptr ? moved : NORMA_BINARY;
}

}  // namespace norma::test
