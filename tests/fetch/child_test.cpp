#include "norma/fetch/child.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <signal.h>

#include <gtest/gtest.h>

#include "norma/base/clock.h"
#include "norma/base/text.h"
#include "tests/support/temp_folder.h"

namespace norma::fetch {
namespace {

ChildEnd shell(const std::string& script, const std::string& folder, double deadline_s = 20) {
  return run_child(
      {.program = "sh", .arguments = {"-c", script}, .folder = folder, .deadline_s = deadline_s});
}

TEST(Child, RunsInItsFolderAndIsHeard) {
  const test::TempFolder folder;
  const ChildEnd end = shell("pwd; echo words >&2; cat; touch made; exit 7", folder.path());
  EXPECT_EQ(end.kind, ChildEnd::Kind::exited);
  EXPECT_EQ(end.code, 7);
  EXPECT_EQ(end.said, folder.path() + "\nwords\n");
  EXPECT_TRUE(std::filesystem::exists(folder / "made"));
}

TEST(Child, ArgumentsAreNotReadByAShell) {
  const test::TempFolder folder;
  const ChildEnd end = run_child({.program = "echo",
                                  .arguments = {"$HOME", "; touch x", "a  b"},
                                  .folder = folder.path(),
                                  .deadline_s = 20});
  EXPECT_EQ(end.said, "$HOME ; touch x a  b\n");
}

TEST(Child, ManyWordsDoNotBlockItAndTheLastAreKept) {
  const test::TempFolder folder;
  const ChildEnd end = shell("yes | head -c 1000000; echo end", folder.path());
  EXPECT_EQ(end.code, 0);
  EXPECT_LE(end.said.size(), 4096U);
  EXPECT_TRUE(end.said.ends_with("y\nend\n"));
}

TEST(Child, AnAbsentProgramIsToldFromOneThatFails) {
  const test::TempFolder folder;
  EXPECT_EQ(run_child({.program = "no-such-program-anywhere",
                       .arguments = {},
                       .folder = folder.path(),
                       .deadline_s = 1})
                .kind,
            ChildEnd::Kind::not_found);
  EXPECT_EQ(shell("kill -9 $$", folder.path()).code, 128 + 9);
}

TEST(Child, TheDeadlineEndsTheWholeGroup) {
  const test::TempFolder folder;
  const Stopwatch watch;
  // A grandchild that keeps the pipe open, and a child that does not listen.
  const ChildEnd end =
      shell("trap '' TERM; sleep 60 & echo $! > pid; wait; sleep 60", folder.path(), 0.3);
  EXPECT_EQ(end.kind, ChildEnd::Kind::too_late);
  EXPECT_LT(watch.seconds(), 10.0);
  pid_t grandchild = 0;
  std::ifstream(folder / "pid") >> grandchild;
  ASSERT_GT(grandchild, 0);
  // It may stay for a moment as a process that nobody has asked about; but it runs no more.
  std::stringstream state;
  state << std::ifstream(say("/proc/", grandchild, "/stat")).rdbuf();
  EXPECT_TRUE(state.str().empty() || state.str().find(") Z") != std::string::npos) << state.str();
}

TEST(Child, SignalsWeIgnoreAreNotIgnoredThere) {
  const test::TempFolder folder;
  const auto before = ::signal(SIGXFSZ, SIG_IGN);
  const ChildEnd end = shell("kill -XFSZ $$; echo alive", folder.path());
  ::signal(SIGXFSZ, before);
  EXPECT_EQ(end.code, 128 + SIGXFSZ);
}

}  // namespace
}  // namespace norma::fetch
