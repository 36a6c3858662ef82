// K1: the trainer and the program are killed while they save.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "norma/base/threads.h"
#include "norma/io/checkpoints.h"
#include "tests/battery/small_run.h"
#include "tests/battery/workshop.h"
#include "tests/support/pass_through_disk.h"

namespace norma::battery {
namespace {

namespace fs = std::filesystem;

/// The last step that the program said it was done with.
Index acknowledged(const std::string& said) {
  const std::size_t at = said.rfind("\nstep ");
  const std::size_t whole = said.rfind('\n');
  if (at == std::string::npos || whole == at) return 0;
  return std::stoll(said.substr(at + 6));
}

struct Kills {
  int lost = 0;
  int damaged = 0;
  int inside = 0;
};

void look(const std::string& run, Index said, Index metrics_step, Kills& kills) {
  io::FileSystem& disk = io::real_file_system();
  const io::NewestCheckpoint newest = io::newest_whole(disk, run + "/checkpoints");
  kills.damaged += newest.skipped.empty() ? 0 : 1;
  const Index step = newest.whole ? static_cast<Index>(newest.whole->step) : 0;
  if (step < said) ++kills.lost;
  // Metrics of a step are written before its save begins, and it is told when the save has ended.
  if (metrics_step > step || step > said) ++kills.inside;
}

/// Trains for ever in this program, saying what the program says: starting it takes no time.
void train_here(io::FileSystem& disk, const std::string& folder) {
  set_thread_count(1);
  train_run(
      tiny_recipe({"train.steps=100000"}),
      tiny_data(),
      {.out = folder, .resume = true},
      [](const RunProgress& progress) {
        if (progress.trouble.empty())
          std::fprintf(stderr, "\nstep %lld/\n", static_cast<long long>(progress.step));
      },
      disk);
}

void expect_nothing_lost(const char* who,
                         int count,
                         const std::string& run,
                         const std::function<std::unique_ptr<Child>(const std::string&)>& start) {
  std::mt19937_64 random(1);
  Kills kills;
  Index said = 0;
  for (int i = 0; i < count; ++i) {
    const io::NewestCheckpoint newest =
        io::newest_whole(io::real_file_system(), run + "/checkpoints");
    const Index from = newest.whole ? static_cast<Index>(newest.whole->step) : 0;
    // At least two steps on: the line of the next one may still be there from the last life.
    const Index goal = from + 2 + static_cast<Index>(random() % 3);
    const std::unique_ptr<Child> child = start(run);
    const auto since = std::chrono::steady_clock::now();
    const auto trains = [&] {
      return last_step_of_metrics(metrics_of(run)) >= goal || !child->running();
    };
    ASSERT_TRUE(wait_until(trains, 60)) << child->wait().out;
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - since;
    // A save takes most of a step, so a part of a step hits every moment of one.
    const double step_ms = std::min(took.count() / static_cast<double>(goal - from), 20.0);
    pause_ms(step_ms * static_cast<double>(random() % 1000) / 1000);
    child->signal(SIGKILL);
    const Ended ended = child->wait();
    ASSERT_EQ(ended.code, 128 + SIGKILL) << ended.out;
    said = std::max(said, acknowledged(ended.out));
    look(run, said, last_step_of_metrics(metrics_of(run)), kills);
  }
  EXPECT_EQ(kills.lost, 0);
  EXPECT_EQ(kills.damaged, 0);
  // Few kills, or a build in which computing is slow (sanitizers), leave more to chance.
  constexpr int kMany = 1000;
  EXPECT_GE(kills.inside, count >= kMany ? count * 9 / 10 : count / 2);

  // Another run that nobody disturbs, as far as the killed one came.
  const std::string calm = run + "-calm";
  const std::unique_ptr<Child> child = start(calm);
  ASSERT_TRUE(wait_until([&] { return last_step_of_metrics(metrics_of(calm)) > said; }, 600));
  child->signal(SIGKILL);
  child->wait();
  EXPECT_EQ(metrics_up_to(metrics_of(run), said), metrics_up_to(metrics_of(calm), said));
  std::printf(
      "K1: %s: %d kills, %d inside a save, %d acknowledged lost, %d damaged; %lld steps equal\n",
      who,
      count,
      kills.inside,
      kills.lost,
      kills.damaged,
      static_cast<long long>(said));
}

void kill_trainer(int count) {
  const test::TempFolder folder;
  expect_nothing_lost("trainer", count, folder / "run", [](const std::string& run) {
    return std::make_unique<Child>([&] { train_here(io::real_file_system(), run); });
  });
}
void kill_program(int count) {
  const Workshop workshop;
  expect_nothing_lost("program", count, workshop.path("run"), [&](const std::string& run) {
    return std::make_unique<Child>(norma_program(), workshop.arguments(run, {"--resume"}));
  });
}

TEST(TrainKill, NothingAcknowledgedIsLost) { kill_trainer(20); }
TEST(TrainKill, OfTheProgramLosesNothingAcknowledged) { kill_program(2); }
TEST(SlowTrainKill, NothingAcknowledgedIsLost) { kill_trainer(1000); }
TEST(SlowTrainKill, OfTheProgramLosesNothingAcknowledged) { kill_program(100); }

/// Writes checkpoints under their final name from the start.
class InPlaceDisk final : public test::PassThroughDisk {
 public:
  using PassThroughDisk::PassThroughDisk;
  io::Answer open(const std::string& path, io::OpenAs how) override {
    return PassThroughDisk::open(final_name(path), how);
  }
  io::Answer make_folder(const std::string& path) override {
    return PassThroughDisk::make_folder(final_name(path));
  }
  io::Answer rename(const std::string& from, const std::string& to) override {
    return final_name(from) == to ? io::Answer{} : PassThroughDisk::rename(from, to);
  }

 private:
  static std::string final_name(std::string path) {
    const std::size_t at = path.find(".tmp.");
    if (at == std::string::npos || path.find("step-") == std::string::npos) return path;
    path.erase(at, std::min(path.find('/', at), path.size()) - at);
    return path;
  }
};

TEST(TrainKillTwin, WritingUnderTheFinalNameIsCaught) {
  const test::TempFolder folder;
  std::mt19937_64 random(1);
  Kills kills;
  for (int i = 0; i < 40 && kills.damaged == 0; ++i) {
    const std::string run = folder / say("run", i);
    Child child([&] {
      InPlaceDisk disk(io::real_file_system());
      train_here(disk, run);
    });
    EXPECT_TRUE(wait_until([&] { return last_step_of_metrics(metrics_of(run)) >= 2; }, 60));
    pause_ms(static_cast<double>(random() % 3000) / 1000);
    child.signal(SIGKILL);
    child.wait();
    look(run, 0, 0, kills);
  }
  EXPECT_GT(kills.damaged, 0);
}

}  // namespace
}  // namespace norma::battery
