#include "norma/io/run_lock.h"

#include <csignal>
#include <filesystem>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/support/expect.h"
#include "tests/support/temp_folder.h"

namespace norma::io {
namespace {

using test::throws;

TEST(RunLock, OneHolderAtATime) {
  const test::TempFolder folder;
  {
    const RunLock first(real_file_system(), folder.path());
    EXPECT_TRUE(
        throws<Error>([&] { RunLock(real_file_system(), folder.path()); },
                      {folder.path() + " is in use by process " + std::to_string(::getpid()),
                       " on host \"",
                       " since \"2",
                       "UTC",
                       "choose another folder"}));
  }
  const RunLock again(real_file_system(), folder.path());
  EXPECT_EQ(again.folder(), folder.path());
}

TEST(RunLock, AFolderThatIsNotThereIsNamed) {
  EXPECT_TRUE(throws<FileError>([] { RunLock(real_file_system(), "/no/such/folder"); },
                                {"/no/such/folder/.lock", "(ENOENT)"}));
}

TEST(RunLock, GarbageInTheLockFileIsNoObstacle) {
  const test::TempFolder folder;
  File garbage(real_file_system(), folder / ".lock", OpenAs::create_new);
  write_text(garbage, "\x1b[31m not json");
  ASSERT_TRUE(garbage.try_lock());
  EXPECT_TRUE(throws<Error>([&] { RunLock(real_file_system(), folder.path()); },
                            {"is in use by another process."}));
  garbage.close();
  const RunLock lock(real_file_system(), folder.path());
}

// Root may write anywhere, so the child becomes somebody else first.
TEST(RunLock, AFolderThatMayNotBeWrittenGetsAHint) {
  const test::TempFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0555));
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(9);
    const bool said = throws<FileError>([&] { RunLock(real_file_system(), folder.path()); },
                                        {"/.lock: Permission denied (EACCES). Choose a folder"});
    ::_exit(said ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// The holder is killed without a chance to clean up; the kernel gives its lock back.
TEST(RunLock, AKilledHolderLeavesNoLock) {
  const test::TempFolder folder;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const RunLock lock(real_file_system(), folder.path());
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  char letter = 0;
  ASSERT_EQ(::read(ready[0], &letter, 1), 1);
  EXPECT_TRUE(throws<Error>([&] { RunLock(real_file_system(), folder.path()); },
                            {"in use by process " + std::to_string(child)}));
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  const RunLock lock(real_file_system(), folder.path());
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace norma::io
