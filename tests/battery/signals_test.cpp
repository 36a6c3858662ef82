// K7: signals in every phase of the program.
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "norma/base/threads.h"
#include "norma/io/checkpoints.h"
#include "tests/battery/small_run.h"
#include "tests/battery/workshop.h"

namespace norma::battery {
namespace {

namespace fs = std::filesystem;

enum class Phase : std::uint8_t { start, load, train, evaluate, sample, save, finish };
constexpr std::array<const char*, 7> kPhases = {
    "start", "load", "train", "evaluate", "sample", "save", "finish"};
constexpr int kTwice = -1;     // SIGINT, and once more
constexpr double kInTime = 6;  // a step and 5 s

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

double seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

class Signals {
 public:
  Signals() : large_(workshop_.write_text("large.txt", 40000)) {}

  void send(int number, Phase phase) {
    const std::string what = say("signal ", number, " in ", name(phase));
    const std::string run = workshop_.path(say(name(phase), number));
    Child child(norma_program(), workshop_.arguments(run, settings(phase)));
    ASSERT_TRUE(wait_until([&] { return is_in(phase, run, child) || !child.running(); }, 60))
        << what;
    child.signal(number == kTwice ? SIGINT : number);
    if (number == kTwice) {
      pause_ms(1);
      child.signal(SIGINT);
    }
    const auto since = std::chrono::steady_clock::now();
    const Ended ended = child.wait();
    const double took_s = seconds_since(since);
    const bool goes_on = number == SIGUSR1;
    const int code = goes_on ? 0 : 128 + (number == kTwice ? SIGINT : number);
    const bool was_done = fs::exists(run + "/DONE");
    EXPECT_TRUE(ended.code == code || (ended.code == 0 && was_done && phase == Phase::finish))
        << what << ": " << ended.code << "\n"
        << ended.out;
    EXPECT_EQ(was_done, ended.code == 0) << what;
    if (!goes_on) {
      EXPECT_LT(took_s, kInTime) << what;
    }
    note_broken_off(run);
    if (ended.code != 0) {
      std::vector<std::string> again = settings(phase);
      again.emplace_back("--resume");
      const Ended rest = workshop_.finish(run, again);
      EXPECT_EQ(rest.code, 0) << what << rest.out;
    }
    expect_same(run, calm(phase), what);
    ++sent_;
  }
  int sent() const { return sent_; }
  int broken_off() const { return broken_off_; }

 private:
  static const char* name(Phase phase) { return kPhases[static_cast<std::size_t>(phase)]; }

  bool is_in(Phase phase, const std::string& run, const Child& child) const {
    switch (phase) {
      case Phase::start:
        return watches_signals(child.id());
      case Phase::load:  // recipe read, data open, nothing trained
        return has(contents(say("/proc/", child.id(), "/maps")), "large.txt") ||
               fs::exists(run + "/recipe.toml");
      case Phase::train:
        return last_step_of_metrics(metrics_of(run)) >= 5;
      case Phase::evaluate:
      case Phase::sample:  // each takes nearly all of a step
        return last_step_of_metrics(metrics_of(run)) >= 2;
      case Phase::save:
        return saving(run);
      case Phase::finish:
        return last_step_of_metrics(metrics_of(run)) >= kSteps - 1;
    }
    return true;
  }

  std::vector<std::string> settings(Phase phase) const {
    std::vector<std::string> all = {say("train.steps=", kSteps), "train.checkpoint_every=0"};
    const auto set = [&](std::initializer_list<std::string> more) { all.insert(all.end(), more); };
    if (phase == Phase::save) set({"train.steps=50", "train.checkpoint_every=1"});
    if (phase == Phase::load) set({"data.path=" + large_});
    if (phase == Phase::evaluate) {
      set({"train.steps=4", "train.eval_every=1", "data.path=" + large_, "data.val_fraction=0.9"});
    }
    if (phase == Phase::sample) {
      set({"train.steps=4", "train.sample_every=1", "train.sample_tokens=4000"});
    }
    return all;
  }

  /// The same run undisturbed.
  std::string calm(Phase phase) {
    const bool own = phase == Phase::load || phase == Phase::evaluate || phase == Phase::sample ||
                     phase == Phase::save;
    std::string run = workshop_.path(say("calm-", own ? name(phase) : "train"));
    if (!fs::exists(run)) {
      EXPECT_EQ(workshop_.finish(run, settings(phase)).code, 0);
    }
    return run;
  }

  static void expect_same(const std::string& run,
                          const std::string& calm,
                          const std::string& what) {
    EXPECT_EQ(metrics_up_to(metrics_of(run), kSteps), metrics_up_to(metrics_of(calm), kSteps))
        << what;
    EXPECT_EQ(contents(run + "/samples.jsonl"), contents(calm + "/samples.jsonl")) << what;
    const auto model = [](const std::string& of) {
      const io::NewestCheckpoint newest =
          io::newest_whole(io::real_file_system(), of + "/checkpoints");
      return newest.whole ? contents(newest.whole->folder + "/model.safetensors") : "";
    };
    EXPECT_EQ(model(run), model(calm)) << what;
    EXPECT_NE(model(calm), "") << what;
  }

  void note_broken_off(const std::string& run) {
    const std::string parent = run + "/checkpoints";
    if (!fs::exists(parent)) return;
    const io::NewestCheckpoint newest = io::newest_whole(io::real_file_system(), parent);
    broken_off_ += newest.whole && has(contents(newest.whole->folder + "/state.json"), "\"open_");
  }

  static constexpr Index kSteps = 300;
  Workshop workshop_;
  std::string large_;
  int sent_ = 0;
  int broken_off_ = 0;  // runs that stopped inside an evaluation or a sample
};

void print(const Signals& signals) {
  std::printf(
      "K7: %d signals, each resumed bit for bit; %d stopped inside an evaluation or sample\n",
      signals.sent(),
      signals.broken_off());
}

TEST(TrainSignals, SaveStopAndResumeBitForBit) {
  Signals signals;
  signals.send(SIGTERM, Phase::save);
  signals.send(SIGINT, Phase::evaluate);
  signals.send(SIGHUP, Phase::sample);
  EXPECT_GT(signals.broken_off(), 0);
  print(signals);
}

TEST(SlowTrainSignals, EverySignalInEveryPhase) {
  Signals signals;
  for (std::size_t i = 0; i < kPhases.size(); ++i) {
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, kTwice}) {
      signals.send(number, static_cast<Phase>(i));
    }
  }
  EXPECT_GE(signals.broken_off(), 3);
  print(signals);
}

/// How long the program takes to stop after SIGTERM once it is there.
double stop_s(const std::vector<std::string>& arguments, const std::function<bool()>& there) {
  Child child(norma_program(), arguments);
  EXPECT_TRUE(wait_until(there, 60));
  pause_ms(50);
  child.signal(SIGTERM);
  const auto since = std::chrono::steady_clock::now();
  const Ended ended = child.wait();
  EXPECT_EQ(ended.code, 128 + SIGTERM) << ended.out.substr(0, 2000);
  return seconds_since(since);
}

TEST(TrainSignals, DoNotWaitForAnEvaluationOrASampleOfAMinute) {
  const Workshop workshop;
  const std::string run = workshop.path("run");
  const std::string text = workshop.write_text("huge.txt", 8000000);
  const auto arguments = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"train.steps=3", "train.checkpoint_every=0"};
    all.insert(all.end(), more.begin(), more.end());
    return workshop.arguments(run, all);
  };
  const auto first_step = [&] { return last_step_of_metrics(metrics_of(run)) >= 1; };
  EXPECT_LT(stop_s(arguments({"data.path=" + text, "data.val_fraction=0.9", "train.eval_every=2"}),
                   first_step),
            kInTime);
  fs::remove_all(run);
  EXPECT_LT(stop_s(arguments({"train.sample_every=2", "train.sample_tokens=1000000"}), first_step),
            kInTime);
  EXPECT_LT(stop_s({"sample", run, "--tokens", "100000000"}, [] { return true; }), kInTime);
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
