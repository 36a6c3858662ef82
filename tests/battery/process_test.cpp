// K1, K4, K5, K7 on the real program: kills, full and read-only disks, signals in every phase.
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <thread>

#include <grp.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "norma/base/threads.h"
#include "norma/io/checkpoints.h"
#include "tests/battery/child.h"
#include "tests/battery/small_run.h"
#include "tests/support/pass_through_disk.h"
#include "tests/support/temp_folder.h"

namespace norma::battery {
namespace {

namespace fs = std::filesystem;

/// A folder with a recipe and a text, and runs of the program in it.
class Workshop {
 public:
  Workshop() {
    std::ofstream text(path("book.txt"));
    for (int i = 0; i < 400; ++i) text << (i * i % 7 < 3 ? "sun " : "moon ");
    std::ofstream(path("r.toml")) << R"(
model = { layers = 1, width = 8, heads = 2, context = 8 }
schedule = { name = "constant" }
train = { steps = 100000, batch = 2, log_every = 1, checkpoint_every = 1, threads = 1 }
)";
  }
  std::string path(const std::string& name) const { return folder_ / name; }
  std::vector<std::string> arguments(const std::string& run,
                                     const std::vector<std::string>& more) const {
    std::vector<std::string> all = {
        "train", path("r.toml"), "data.path=" + path("book.txt"), "--out", run};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Ended finish(const std::string& run, const std::vector<std::string>& more) const {
    return Child(norma_program(), arguments(run, more)).wait();
  }

 private:
  test::TempFolder folder_;
};

std::string metrics_of(const std::string& run) { return contents(run + "/metrics.jsonl"); }

Index last_step_of_metrics(const std::string& metrics) {
  const std::size_t at = metrics.rfind("{\"step\":");
  return at == std::string::npos ? 0 : std::stoll(metrics.substr(at + 8));
}

/// The last step that the program said it was done with.
Index acknowledged(const std::string& said) {
  const std::size_t at = said.rfind("\nstep ");
  const std::size_t whole = said.rfind('\n');
  if (at == std::string::npos || whole == at) return 0;
  return std::stoll(said.substr(at + 6));
}

void pause_ms(double ms) {
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
}

// --- K1 ------------------------------------------------------------------------------------------

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
  EXPECT_GE(kills.inside, count * 9 / 10);

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

TEST(TrainKill, NothingAcknowledgedIsLost) { kill_trainer(100); }
TEST(TrainKill, OfTheProgramLosesNothingAcknowledged) { kill_program(5); }
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
    EXPECT_TRUE(wait_until([&] { return fs::exists(run + "/checkpoints/step-00000002"); }, 60));
    pause_ms(static_cast<double>(random() % 3000) / 1000);
    child.signal(SIGKILL);
    child.wait();
    look(run, 0, 0, kills);
  }
  EXPECT_GT(kills.damaged, 0);
}

// --- K4 ------------------------------------------------------------------------------------------

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(TrainFullDisk, ALimitOnFileSizesIsASentence) {
  const Workshop workshop;
  const std::string run = workshop.path("run");
  const auto limit = [] {
    const rlimit small{8192, 8192};
    ::setrlimit(RLIMIT_FSIZE, &small);
  };
  Child child(norma_program(), workshop.arguments(run, {"train.steps=3"}), limit);
  const Ended ended = child.wait();
  EXPECT_EQ(ended.code, 1) << ended.out;
  EXPECT_TRUE(has(ended.out, "norma: warning: cannot write")) << ended.out;
  EXPECT_TRUE(has(ended.out, "(EFBIG)") && has(ended.out, "ulimit -f")) << ended.out;
  EXPECT_TRUE(fs::is_empty(run + "/checkpoints"));
  EXPECT_FALSE(fs::exists(run + "/DONE"));
  EXPECT_EQ(workshop.finish(run, {"train.steps=3", "--resume"}).code, 0);
}

/// A small file system of its own, where the user may make one.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& options)
      : mounted_(::mount("none", folder_.path().c_str(), "tmpfs", 0, options.c_str()) == 0) {}
  ~SmallDisk() {
    if (mounted_) ::umount2(folder_.path().c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }
  std::string operator/(const std::string& name) const { return folder_ / name; }
  void make_read_only() const {
    ::mount("none", folder_.path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr);
  }

 private:
  test::TempFolder folder_;
  bool mounted_;
};

TEST(TrainFullDisk, TooLittleSpaceIsToldBeforeTheFirstStep) {
  const SmallDisk disk("size=64k");
  if (!disk.mounted()) GTEST_SKIP() << "only root may mount a small file system";
  const Workshop workshop;
  const Ended ended = workshop.finish(disk / "run", {"train.steps=3", "model.width=64"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_TRUE(has(ended.out, "of free space, and the checkpoints need")) << ended.out;
  EXPECT_FALSE(has(ended.out, "step 1/"));
}

TEST(TrainFullDisk, ADiskThatFillsUpIsToldAndTrainingGoesOn) {
  const SmallDisk disk("size=2m");
  if (!disk.mounted()) GTEST_SKIP() << "only root may mount a small file system";
  const Workshop workshop;
  const std::string run = disk / "run";
  Child child(norma_program(), workshop.arguments(run, {}));
  ASSERT_TRUE(wait_until([&] { return fs::exists(run + "/checkpoints/step-00000003"); }, 60));
  {
    std::ofstream filler(disk / "filler", std::ios::binary);
    while (filler << std::string(4096, 'x') << std::flush) {
    }
  }
  pause_ms(300);
  fs::remove(disk / "filler");
  const Index then = last_step_of_metrics(metrics_of(run));
  ASSERT_TRUE(wait_until([&] { return last_step_of_metrics(metrics_of(run)) > then + 5; }, 60));
  child.signal(SIGTERM);
  const Ended ended = child.wait();
  EXPECT_EQ(ended.code, 128 + SIGTERM);
  EXPECT_TRUE(has(ended.out, "No space left on device (ENOSPC)")) << ended.out.substr(0, 2000);
  const io::NewestCheckpoint newest =
      io::newest_whole(io::real_file_system(), run + "/checkpoints");
  ASSERT_TRUE(newest.whole);
  EXPECT_TRUE(newest.skipped.empty());
  const std::string metrics = metrics_of(run);
  EXPECT_EQ(std::count(metrics.begin(), metrics.end(), '\n'), last_step_of_metrics(metrics));
}

// --- K5 ------------------------------------------------------------------------------------------

void expect_refused(const Ended& ended, const std::string& part) {
  EXPECT_EQ(ended.code, 1) << ended.out;
  EXPECT_TRUE(has(ended.out, part)) << ended.out;
  EXPECT_FALSE(has(ended.out, "step 1/")) << ended.out;
}

TEST(TrainNoDisk, AReadOnlyFileSystemIsToldBeforeTheFirstStep) {
  const SmallDisk disk("size=2m");
  if (!disk.mounted()) GTEST_SKIP() << "only root may mount a read-only file system";
  disk.make_read_only();
  expect_refused(Workshop().finish(disk / "run", {"train.steps=3"}), "(EROFS)");
}

TEST(TrainNoDisk, AFolderOfSomebodyElseIsToldBeforeTheFirstStep) {
  const Workshop workshop;
  const std::string out = workshop.path("closed");
  fs::create_directory(out);
  ::chmod(out.c_str(), 0555);
  ::chmod(workshop.path("").c_str(), 0755);
  const auto as_nobody = [] {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 &&
        (::setgroups(0, nullptr) != 0 || ::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) {
      ::_exit(126);
    }
  };
  Child child(norma_program(), workshop.arguments(out, {"train.steps=3"}), as_nobody);
  const Ended ended = child.wait();
  if (ended.code == 126 || ended.code == 127) GTEST_SKIP() << "cannot run as another user here";
  expect_refused(ended, "Permission denied (EACCES)");
}

TEST(TrainNoDisk, AFileInThePlaceOfAFolderIsTold) {
  const Workshop workshop;
  expect_refused(workshop.finish(workshop.path("book.txt/run"), {}), "(ENOTDIR)");
}

TEST(TrainNoDisk, AFolderThatVanishesIsToldAndTrainingGoesOn) {
  const Workshop workshop;
  const std::string run = workshop.path("run");
  Child child(norma_program(), workshop.arguments(run, {"train.steps=400"}));
  ASSERT_TRUE(wait_until([&] { return fs::exists(run + "/checkpoints/step-00000003"); }, 60));
  fs::rename(run, workshop.path("moved"));
  const Ended ended = child.wait();
  EXPECT_EQ(ended.code, 1);
  EXPECT_TRUE(has(ended.out, "norma: warning: cannot")) << ended.out.substr(0, 2000);
  EXPECT_TRUE(has(ended.out, "No such file or directory (ENOENT)"));
  EXPECT_TRUE(has(ended.out, "step 399/400"));
  EXPECT_FALSE(fs::exists(run));
}

// --- K7 ------------------------------------------------------------------------------------------

enum class Phase : std::uint8_t { start, prepare, train, evaluate, save, finish };
constexpr std::array<const char*, 6> kPhases = {
    "start", "prepare", "train", "evaluate", "save", "finish"};
constexpr int kTwice = -1;  // SIGINT, and once more

bool watches_signals(pid_t child) {
  const std::string status = contents(say("/proc/", child, "/status"));
  const std::size_t at = status.find("SigBlk:");
  return at != std::string::npos &&
         (std::stoull(status.substr(at + 7), nullptr, 16) >> (SIGTERM - 1) & 1) != 0;
}

bool saving(const std::string& run) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run + "/checkpoints", ignored)) {
    if (has(entry.path().string(), ".tmp.")) return true;
  }
  return false;
}

class Signals {
 public:
  Signals() { EXPECT_EQ(workshop_.finish(workshop_.path("calm"), settings(Phase::train)).code, 0); }

  void send(int number, Phase phase) {
    const std::string run = workshop_.path(say(kPhases[static_cast<std::size_t>(phase)], number));
    const std::string what =
        say("signal ", number, " in ", kPhases[static_cast<std::size_t>(phase)]);
    Child child(norma_program(), workshop_.arguments(run, settings(phase)));
    const auto here = [&] {
      switch (phase) {
        case Phase::start:
          return watches_signals(child.id());
        case Phase::prepare:
          return fs::exists(run + "/recipe.toml");
        case Phase::train:
        case Phase::evaluate:
          return last_step_of_metrics(metrics_of(run)) >= 5;
        case Phase::save:
          return saving(run);
        case Phase::finish:
          return last_step_of_metrics(metrics_of(run)) >= kSteps - 1;
      }
      return true;
    };
    ASSERT_TRUE(wait_until([&] { return here() || !child.running(); }, 60)) << what;
    child.signal(number == kTwice ? SIGINT : number);
    if (number == kTwice) {
      pause_ms(1);
      child.signal(SIGINT);
    }
    const auto since = std::chrono::steady_clock::now();
    const Ended ended = child.wait();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - since;
    const bool goes_on = number == SIGUSR1;
    const int code = goes_on ? 0 : 128 + (number == kTwice ? SIGINT : number);
    const bool was_done = fs::exists(run + "/DONE");
    EXPECT_TRUE(ended.code == code || (ended.code == 0 && was_done && phase == Phase::finish))
        << what << ": " << ended.code << "\n"
        << ended.out;
    EXPECT_EQ(was_done, ended.code == 0) << what;
    if (!goes_on) {
      EXPECT_LT(took.count(), 6) << what;
    }
    if (ended.code != 0) {
      const Ended again = workshop_.finish(run, with_resume(phase));
      EXPECT_EQ(again.code, 0) << what << again.out;
    }
    EXPECT_EQ(metrics_up_to(metrics_of(run), kSteps), calm_metrics(phase)) << what;
    EXPECT_EQ(model(run), model(workshop_.path("calm"))) << what;
    ++sent_;
  }
  int sent() const { return sent_; }

 private:
  static constexpr Index kSteps = 300;

  static std::vector<std::string> settings(Phase phase) {
    std::vector<std::string> all = {say("train.steps=", kSteps)};
    all.emplace_back(phase == Phase::save ? "train.checkpoint_every=1"
                                          : "train.checkpoint_every=0");
    if (phase == Phase::evaluate) all.emplace_back("train.eval_every=1");
    return all;
  }
  static std::vector<std::string> with_resume(Phase phase) {
    std::vector<std::string> all = settings(phase);
    all.emplace_back("--resume");
    return all;
  }
  std::string calm_metrics(Phase phase) {
    const std::string run = workshop_.path(phase == Phase::evaluate ? "calm-evaluated" : "calm");
    if (!fs::exists(run)) {
      EXPECT_EQ(workshop_.finish(run, settings(phase)).code, 0);
    }
    return metrics_up_to(metrics_of(run), kSteps);
  }
  static std::string model(const std::string& run) {
    return contents(run + "/checkpoints/step-00000300/model.safetensors");
  }

  Workshop workshop_;
  int sent_ = 0;
};

TEST(TrainSignals, SaveStopAndResumeBitForBit) {
  Signals signals;
  for (const int number : {SIGTERM, SIGHUP, kTwice}) {
    signals.send(number, number == SIGTERM ? Phase::save : Phase::train);
  }
  std::printf("K7: %d signals, each resumed bit for bit\n", signals.sent());
}

TEST(SlowTrainSignals, EverySignalInEveryPhase) {
  Signals signals;
  for (int i = 0; i < 6; ++i) {
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, kTwice}) {
      signals.send(number, static_cast<Phase>(i));
    }
  }
  std::printf("K7: %d signals in 6 phases, each resumed bit for bit\n", signals.sent());
}

TEST(TrainSignals, ARequestToSaveSavesAndGoesOn) {
  const Workshop workshop;
  const std::string run = workshop.path("run");
  Child child(norma_program(), workshop.arguments(run, {"train.checkpoint_every=0"}));
  ASSERT_TRUE(wait_until([&] { return last_step_of_metrics(metrics_of(run)) > 3; }, 60));
  EXPECT_TRUE(fs::is_empty(run + "/checkpoints"));
  child.signal(SIGUSR1);
  const auto saved = [&] {
    return io::newest_whole(io::real_file_system(), run + "/checkpoints").whole.has_value();
  };
  ASSERT_TRUE(wait_until(saved, 20));
  EXPECT_TRUE(child.running());
}

/// The twin: a program that does not watch its signals leaves no checkpoint behind.
TEST(TrainSignalsTwin, WithoutWatchingNothingIsSaved) {
  const test::TempFolder folder;
  const std::string run_folder = folder / "run";
  Child child([&] {
    set_thread_count(1);
    run(io::real_file_system(),
        tiny_recipe({"train.steps=1000000", "train.checkpoint_every=0"}),
        {.out = run_folder});
  });
  EXPECT_TRUE(wait_until([&] { return last_step_of_metrics(metrics_of(run_folder)) > 3; }, 60));
  child.signal(SIGTERM);
  EXPECT_EQ(child.wait().code, 128 + SIGTERM);
  EXPECT_FALSE(
      io::newest_whole(io::real_file_system(), run_folder + "/checkpoints").whole.has_value());
}

}  // namespace
}  // namespace norma::battery
