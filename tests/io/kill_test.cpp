// kill -9 at a random moment of a process that saves without pause, on the real disk.
#include <algorithm>
#include <csignal>
#include <random>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "tests/io/training.h"
#include "tests/support/temp_folder.h"

namespace norma::io {
namespace {

constexpr std::size_t kBytes = 1 << 20;

/// A protocol without a temporary folder, as a twin: it writes under the final name.
void save_in_place(FileSystem& disk, const std::string& parent, std::uint64_t step) {
  {
    Commit commit(disk, parent, step);
    const std::string folder = join(parent, step_folder_name(step));
    for (const std::string& name : list_folder(disk, parent)) {
      if (name.find(".tmp.") != std::string::npos) rename(disk, join(parent, name), folder);
    }
    File file(disk, join(folder, "model.safetensors"), OpenAs::create_new);
    for (int i = 0; i < 16; ++i) write_text(file, std::string(kBytes / 16, 'x'));
    file.sync();
    file.close();
  }
}

struct Kills {
  int lost = 0;     // acknowledged, but not there
  int damaged = 0;  // a final name that is no checkpoint
  int inside = 0;   // kills that met an unfinished save
};

// The child saves steps and writes each acknowledged one into a pipe, until it is killed.
[[noreturn]] void child_saves(const std::string& run,
                              std::uint64_t first,
                              int pipe,
                              bool in_place) {
  try {
    FileSystem& disk = real_file_system();
    const RunLock lock(disk, run);
    const std::string parent = join(run, "c");
    prepare_checkpoints(disk, parent, lock, kBytes);
    for (std::uint64_t step = first;; ++step) {
      if (in_place) {
        save_in_place(disk, parent, step);
      } else {
        save(disk, parent, step, kBytes);
      }
      if (::write(pipe, &step, sizeof(step)) != sizeof(step)) ::_exit(1);
      if (!in_place) retain(disk, parent, {.last = 2});
    }
  } catch (const Error&) {
    ::_exit(2);
  }
}

Kills kill_repeatedly(int kills, bool in_place) {
  const test::TempFolder run;
  FileSystem& disk = real_file_system();
  const std::string parent = run / "c";
  make_folder(disk, parent);
  std::mt19937_64 random(9);
  Kills result;
  std::uint64_t last = 0;
  for (int i = 0; i < kills; ++i) {
    int ends[2];
    if (::pipe(ends) != 0) throw Error("no pipe.");
    const pid_t child = ::fork();
    if (child == 0) child_saves(run.path(), last + 1, ends[1], in_place);
    ::close(ends[1]);
    ::usleep(static_cast<useconds_t>(500 + random() % 40000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << "the child left by itself, code " << WEXITSTATUS(status);
    for (std::uint64_t step = 0; ::read(ends[0], &step, sizeof(step)) == sizeof(step);) last = step;
    ::close(ends[0]);

    bool unfinished = false;
    for (const std::string& name : list_folder(disk, parent)) {
      if (!step_of(name)) {
        unfinished = true;
        continue;
      }
      try {
        last = std::max(last, verify(disk, join(parent, name)).step);
      } catch (const DamagedError&) {
        ++result.damaged;
        remove_flat_folder(disk, join(parent, name));
      }
    }
    result.inside += unfinished ? 1 : 0;
    const NewestCheckpoint newest = newest_whole(disk, parent);
    if (!in_place && last > 0 && (!newest.whole || newest.whole->step < last)) ++result.lost;
  }
  return result;
}

void expect_nothing_lost(int kills) {
  const Kills result = kill_repeatedly(kills, false);
  EXPECT_EQ(result.lost, 0);
  EXPECT_EQ(result.damaged, 0);
  EXPECT_GT(result.inside, kills / 2);  // else the test would not test
  testing::Test::RecordProperty("kills_inside_a_save", result.inside);
}

TEST(Kill, NoAcknowledgedCheckpointIsLost) { expect_nothing_lost(40); }
TEST(SlowKill, NoAcknowledgedCheckpointIsLost) { expect_nothing_lost(1000); }

TEST(KillTwin, WritingUnderTheFinalNameIsCaught) {
  EXPECT_GT(kill_repeatedly(20, true).damaged, 0);
}

}  // namespace
}  // namespace norma::io
