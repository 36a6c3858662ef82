#include "tests/cli/program.h"

#include <cstdlib>
#include <filesystem>

#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/contents.h"
#include "tests/support/norma_program.h"

namespace norma {

namespace {

std::string read_and_remove(const std::string& path) {
  std::string text = test::contents(path);
  std::filesystem::remove(path);
  return text;
}

}  // namespace

Outcome run_in_shell(const std::string& script) {
  const std::string binary = test::norma_program();
  const std::filesystem::path stem =
      std::filesystem::temp_directory_path() / ("norma-cli-" + std::to_string(getpid()));
  const std::string out = stem.string() + ".out";
  const std::string err = stem.string() + ".err";
  const int status = std::system(
      ("NORMA=" + binary + "; ( " + script + " ) >" + out + " 2>" + err + " </dev/null").c_str());
  Outcome outcome;
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = read_and_remove(out);
  outcome.err = read_and_remove(err);
  return outcome;
}

Outcome run_norma(const std::string& arguments) { return run_in_shell("exec $NORMA " + arguments); }

testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << part << "\" is not in:\n" << text;
}

}  // namespace norma
