// Runs the built program as a user would and keeps what it said.
#pragma once

#include <string>

#include <gtest/gtest.h>

namespace norma {

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

/// Runs `norma ARGUMENTS` through the shell.
Outcome run_norma(const std::string& arguments);
/// Runs a script of the shell in which $NORMA is the program.
Outcome run_in_shell(const std::string& script);
/// Whether a part is in a text; says the text where not.
testing::AssertionResult has(const std::string& text, const std::string& part);

}  // namespace norma
