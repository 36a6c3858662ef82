// Loss of power at every call, with every fate of what was not yet durable; and proof that each
// sync of the protocol is needed.
#include <functional>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "tests/io/training.h"
#include "tests/support/forgetful_disk.h"
#include "tests/support/memory_disk.h"

namespace norma::io {
namespace {

using test::ForgetfulDisk;
using test::MemoryDisk;

constexpr std::uint64_t kLast = 400;

struct Tally {
  long states = 0;
  long broken = 0;
  std::string first;
};

Tally cut_power_everywhere(const ForgetfulDisk::Forgets& forgets, int draws) {
  Tally tally;
  std::mt19937_64 random(2026);
  for (long n = 0;; ++n) {
    MemoryDisk disk;
    make_folder(disk, kRun);
    const long before = disk.calls();
    disk.cut_power_after(before + n);
    Story story;
    bool finished = true;
    try {
      ForgetfulDisk forgetful(disk, forgets);
      train(forgetful, kLast, story);
    } catch (const FileError&) {
      finished = false;
    }
    for (int draw = 0; draw < draws; ++draw) {
      MemoryDisk survivor = disk.after_power_loss(random);
      // Running on from every state would take most of the time; every eighth is enough.
      const auto verdict =
          draw % 8 == 0 ? recovers(survivor, story) : keeps_its_promises(survivor, story);
      ++tally.states;
      if (verdict) continue;
      if (tally.broken++ == 0) tally.first = say("after call ", n, ": ", verdict.message());
    }
    if (finished && disk.calls() <= before + n) return tally;
  }
}

bool forgets_nothing(const std::string&) { return false; }

void expect_no_loss(int draws) {
  const Tally tally = cut_power_everywhere(forgets_nothing, draws);
  EXPECT_EQ(tally.broken, 0) << tally.first;
  EXPECT_GT(tally.states, 100 * draws);
  testing::Test::RecordProperty("states", std::to_string(tally.states));
}

TEST(PowerLoss, NoAcknowledgedCheckpointIsLostAtAnyCall) { expect_no_loss(64); }
TEST(SlowPowerLoss, NoAcknowledgedCheckpointIsLostAtAnyCall) { expect_no_loss(2000); }

// The twins: a protocol that leaves out one sync must be caught.
void expect_caught(const ForgetfulDisk::Forgets& forgets) {
  const Tally tally = cut_power_everywhere(forgets, 64);
  EXPECT_GT(tally.broken, 0) << "of " << tally.states << " states";
}

bool ends_with(const std::string& path, std::string_view end) { return path.ends_with(end); }

TEST(PowerLossTwin, WithoutTheSyncOfADataFile) {
  expect_caught([](const std::string& path) { return ends_with(path, "/model.safetensors"); });
}
TEST(PowerLossTwin, WithoutTheSyncOfTheManifest) {
  expect_caught([](const std::string& path) { return ends_with(path, "/MANIFEST.json"); });
}
TEST(PowerLossTwin, WithoutTheSyncOfTheTemporaryFolder) {
  expect_caught([](const std::string& path) {
    return path.find(".tmp.") != std::string::npos && !path.ends_with(".json") &&
           !path.ends_with(".safetensors");
  });
}
TEST(PowerLossTwin, WithoutTheSyncOfTheParentFolder) {
  expect_caught([](const std::string& path) { return path == kParent; });
}
TEST(PowerLossTwin, WithoutTheSyncOfTheRunFolder) {
  expect_caught([](const std::string& path) { return path == kRun; });
}

// The sync of the parent between the rename to .del and the removal of the files.
TEST(PowerLossTwin, WithoutTheSyncBeforeADeletion) {
  Tally tally;
  std::mt19937_64 random(5);
  for (int draw = 0; draw < 200; ++draw) {
    MemoryDisk disk;
    make_folder(disk, kRun);
    make_folder(disk, kParent);
    for (const std::uint64_t step : {100, 200, 300}) save(disk, kParent, step);
    ForgetfulDisk forgetful(disk, [](const std::string& path) { return path == kParent; });
    retain(forgetful, kParent, {.last = 2});
    MemoryDisk survivor = disk.after_power_loss(random);
    tally.broken += keeps_its_promises(survivor, {}) ? 0 : 1;
  }
  EXPECT_GT(tally.broken, 0);
}

}  // namespace
}  // namespace norma::io
