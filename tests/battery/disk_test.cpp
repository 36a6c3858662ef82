// K2, K3, K6 on the trainer's own calls: power lost after any call, any call failing, damaged
// checkpoints. The disk is in memory; the run is the real one.
#include <cerrno>
#include <cstring>
#include <functional>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "norma/io/checkpoints.h"
#include "tests/battery/small_run.h"
#include "tests/support/faulty_disk.h"
#include "tests/support/forgetful_disk.h"
#include "tests/support/memory_disk.h"

namespace norma::battery {
namespace {

using io::Answer;
using test::ForgetfulDisk;
using test::MemoryDisk;

struct Tally {
  long trials = 0;
  long broken = 0;
  std::string first;

  void note(const testing::AssertionResult& verdict, const std::string& where) {
    ++trials;
    if (verdict) return;
    if (broken++ == 0) first = say(where, ": ", verdict.message());
  }
};

void print(const char* id, const Tally& tally, const char* what) {
  std::printf("%s: %ld %s, %ld broken\n", id, tally.trials, what, tally.broken);
}

// --- K2 ------------------------------------------------------------------------------------------

enum class Until : std::uint8_t { the_end, the_first_broken };

Tally cut_power_everywhere(const ForgetfulDisk::Forgets& forgets, int draws, Until until) {
  const Recipe recipe = tiny_recipe({"train.steps=3"});
  const Reference reference(recipe);
  std::mt19937_64 random(2026);
  Tally tally;
  for (long n = 1;; ++n) {
    MemoryDisk disk;
    disk.cut_power_after(n);
    ForgetfulDisk forgetful(disk, forgets);
    const Story story = run(forgetful, recipe);
    for (int draw = 0; draw < draws; ++draw) {
      MemoryDisk survivor = disk.after_power_loss(random);
      // Training on from every state would take most of the time.
      const bool whole_way = (n + draw) % 16 == 0;
      tally.note(whole_way ? recovers(survivor, recipe, story, reference)
                           : keeps_its_promises(survivor, story, reference.metrics),
                 say("after call ", n));
    }
    const bool enough = until == Until::the_first_broken && tally.broken > 0;
    if (story.end.empty() || enough) return tally;
  }
}

void expect_no_loss(int draws) {
  const Tally tally =
      cut_power_everywhere([](const std::string&) { return false; }, draws, Until::the_end);
  EXPECT_EQ(tally.broken, 0) << tally.first;
  EXPECT_GT(tally.trials, 100 * draws);
  print("K2", tally, "states after a loss of power");
}
TEST(TrainPowerLoss, NothingAcknowledgedIsLostAtAnyCall) { expect_no_loss(32); }
TEST(SlowTrainPowerLoss, NothingAcknowledgedIsLostAtAnyCall) { expect_no_loss(1000); }

void expect_caught(const ForgetfulDisk::Forgets& forgets) {
  const Tally tally = cut_power_everywhere(forgets, 16, Until::the_first_broken);
  EXPECT_GT(tally.broken, 0);
  print("K2 twin", tally, "states");
}
TEST(TrainPowerLossTwin, WithoutTheSyncOfTheMetrics) {
  expect_caught([](const std::string& path) { return path.ends_with("/metrics.jsonl"); });
}
TEST(TrainPowerLossTwin, WithoutTheSyncOfTheRunFolder) {
  expect_caught([](const std::string& path) { return path == kRun; });
}
TEST(TrainPowerLossTwin, WithoutTheSyncOfTheCheckpoints) {
  expect_caught([](const std::string& path) { return path == kCheckpoints; });
}
TEST(TrainPowerLossTwin, WithoutTheSyncOfTheModel) {
  expect_caught([](const std::string& path) { return path.ends_with("/model.safetensors"); });
}

// --- K3 ------------------------------------------------------------------------------------------

bool names_the_fault(const std::string& sentence, int error) {
  const bool names_path = sentence.find(kRun) != std::string::npos ||
                          sentence.find(" .: ") != std::string::npos;  // the folder above the run
  return sentence.find(say("(", strerrorname_np(error), ")")) != std::string::npos && names_path;
}

Tally fail_every_call(int error, bool for_ever) {
  const Recipe recipe = tiny_recipe({"train.steps=3"});
  const Reference reference(recipe);
  Tally tally;
  for (long n = 1;; ++n) {
    MemoryDisk disk;
    test::FaultyDisk faulty(disk, {.at = n, .error = error, .for_ever = for_ever});
    const Story story = run(faulty, recipe);
    const std::string where = say(strerrorname_np(error), " at call ", n);
    for (const std::string& trouble : story.troubles) {
      if (!names_the_fault(trouble, error)) {
        tally.note(testing::AssertionFailure() << trouble, where);
      }
    }
    if (!story.end.empty() && !names_the_fault(story.end, error)) {
      tally.note(testing::AssertionFailure() << story.end, where);
    }
    tally.note(recovers(disk, recipe, story, reference), where);
    if (!faulty.struck()) return tally;
  }
}

void expect_every_failure_survived(std::initializer_list<int> errors) {
  long runs = 0;
  for (const int error : errors) {
    for (const bool for_ever : {false, true}) {
      const Tally tally = fail_every_call(error, for_ever);
      EXPECT_EQ(tally.broken, 0) << tally.first << (for_ever ? ", for ever" : ", once");
      runs += tally.trials;
    }
  }
  std::printf("K3: %ld runs with a failing call, each resumed bit for bit\n", runs);
}
TEST(TrainCallFaults, EveryCallOnceAndForEver) { expect_every_failure_survived({ENOSPC}); }
TEST(SlowTrainCallFaults, EveryCallEveryErrorOnceAndForEver) {
  expect_every_failure_survived({EIO, ENOSPC, EDQUOT, EACCES, EROFS, EMFILE});
}

/// Swallows one write and says that it took it.
class LyingDisk final : public test::PassThroughDisk {
 public:
  LyingDisk(FileSystem& below, long lie) : PassThroughDisk(below), lie_(lie) {}
  Answer write(int handle, io::Bytes bytes) override {
    if (++writes_ == lie_) return {.value = static_cast<std::int64_t>(bytes.size())};
    return PassThroughDisk::write(handle, bytes);
  }
  long writes() const { return writes_; }

 private:
  long lie_;
  long writes_ = 0;
};
TEST(TrainCallFaultsTwin, AWriteThatIsNotLookedAtIsCaught) {
  const Recipe recipe = tiny_recipe({"train.steps=3"});
  const Reference reference(recipe);
  Tally tally;
  for (long n = 1;; ++n) {
    MemoryDisk disk;
    LyingDisk lying(disk, n);
    const Story story = run(lying, recipe);
    tally.note(recovers(disk, recipe, story, reference), "");
    if (lying.writes() < n) break;
  }
  EXPECT_GT(tally.broken, 3);
  print("K3 twin", tally, "swallowed writes");
}

TEST(TrainCallFaults, AFailedSaveIsToldAndTheNextOneSucceeds) {
  const Recipe recipe = tiny_recipe({"train.steps=3"});
  const Reference reference(recipe);
  int told = 0;
  for (long n = 1;; ++n) {
    MemoryDisk disk;
    test::FaultyDisk faulty(disk, {.at = n, .error = ENOSPC});
    const Story story = run(faulty, recipe);
    told += story.end.empty() && !story.troubles.empty() ? 1 : 0;
    if (!faulty.struck()) break;
  }
  EXPECT_GT(told, 20);
  std::printf("K3: %d runs went on after a failed save\n", told);
}

// --- K6 ------------------------------------------------------------------------------------------

long undetected(io::Depth depth, long flips, long& trials) {
  const Recipe recipe = tiny_recipe();
  MemoryDisk whole;
  run(whole, recipe);
  const std::string newest = io::join(kCheckpoints, io::step_folder_name(5));
  long missed = 0;
  std::mt19937_64 random(6);
  const auto damage = [&](const std::string& file, const std::string& bytes) {
    MemoryDisk disk = whole;
    disk.put(io::join(newest, file), bytes);
    ++trials;
    try {
      io::verify(disk, newest, depth);
      ++missed;
      return;
    } catch (const io::DamagedError&) {
    }
    const io::NewestCheckpoint found = io::newest_whole(disk, kCheckpoints);
    const bool next = found.whole && found.whole->step == 4 && found.skipped.size() == 1 &&
                      found.skipped[0].why.find(newest) != std::string::npos;
    if (!next) ++missed;
  };
  for (const std::string& file : io::list_folder(whole, newest)) {
    const std::string bytes = whole.bytes_of(io::join(newest, file));
    for (std::size_t part = 0; part < 64; ++part)
      damage(file, bytes.substr(0, bytes.size() * part / 64));
    damage(file, bytes + "x");
    damage(file, std::string(bytes.size(), '\0'));
    for (long i = 0; i < flips; ++i) {
      std::string flipped = bytes;
      flipped[random() % flipped.size()] ^= static_cast<char>(1U << (random() % 8));
      damage(file, flipped);
    }
  }
  return missed;
}

TEST(TrainDamage, EveryTruncationAndFlipIsDetected) {
  long trials = 0;
  EXPECT_EQ(undetected(io::Depth::digests, 500, trials), 0);
  std::printf("K6: %ld damaged checkpoints, all detected, the next older one taken\n", trials);
}
TEST(SlowTrainDamage, EveryTruncationAndFlipIsDetected) {
  long trials = 0;
  EXPECT_EQ(undetected(io::Depth::digests, 25000, trials), 0);
  std::printf("K6: %ld damaged checkpoints, all detected, the next older one taken\n", trials);
}
TEST(TrainDamageTwin, WithoutDigestsFlipsAreMissed) {
  long trials = 0;
  EXPECT_GT(undetected(io::Depth::sizes, 50, trials), 50);
}

}  // namespace
}  // namespace norma::battery
