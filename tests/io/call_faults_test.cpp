// The n-th call to the disk fails, for every n until the run gets through, once and for ever, with
// every error a disk may answer.
#include <cerrno>
#include <cstring>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "tests/io/training.h"
#include "tests/support/faulty_disk.h"
#include "tests/support/memory_disk.h"

namespace norma::io {
namespace {

using test::Fault;
using test::FaultyDisk;
using test::MemoryDisk;

/// The mistake of a protocol that does not look at what a sync answers.
class DeafToSync final : public test::PassThroughDisk {
 public:
  using PassThroughDisk::PassThroughDisk;
  Answer sync(int handle) override {
    PassThroughDisk::sync(handle);
    return {};
  }
};

struct Verdict {
  bool struck = false;
  std::string complaint;  // empty: all is well
};

// A run that has saved steps 100 and 200 goes on to 400 on a disk with that fault.
Verdict run_with(const Fault& fault, bool deaf) {
  MemoryDisk disk;
  make_folder(disk, kRun);
  Story story;
  train(disk, 200, story);

  FaultyDisk faulty(disk, fault);
  Verdict verdict;
  try {
    DeafToSync careless(faulty);
    train(deaf ? static_cast<FileSystem&>(careless) : faulty, 400, story);
  } catch (const FileError& error) {
    const std::string_view sentence = error.what();
    const bool named =
        sentence.find(say("(", strerrorname_np(fault.error), ")")) != sentence.npos &&
        sentence.find(kRun) != sentence.npos;
    if (error.code() != fault.error || !named) verdict.complaint = error.what();
  } catch (const Error& error) {
    verdict.complaint = error.what();
  }
  verdict.struck = faulty.struck();
  std::mt19937_64 random(fault.at);
  for (int draw = 0; draw < 8 && verdict.complaint.empty(); ++draw) {
    MemoryDisk survivor = disk.after_power_loss(random);
    const auto kept = recovers(survivor, story);
    if (!kept) verdict.complaint = say("after a loss of power: ", kept.message());
  }
  const auto kept = recovers(disk, story);
  if (!kept) verdict.complaint = kept.message();
  return verdict;
}

// Returns how many runs were made; stops at the first n that the run does not reach.
int loop(const Fault& kind, bool deaf, int& broken, std::string& first) {
  for (int n = 1;; ++n) {
    Fault fault = kind;
    fault.at = n;
    const Verdict verdict = run_with(fault, deaf);
    if (!verdict.complaint.empty() && broken++ == 0) {
      first = say(strerrorname_np(fault.error), " at call ", n, ": ", verdict.complaint);
    }
    if (!verdict.struck) return n;
  }
}

TEST(CallFaults, EveryCallEveryErrorOnceAndForEver) {
  int runs = 0;
  for (const int error : {EIO, ENOSPC, EACCES, EDQUOT, EROFS, EMFILE}) {
    for (const bool for_ever : {false, true}) {
      int broken = 0;
      std::string first;
      runs += loop({.error = error, .for_ever = for_ever}, false, broken, first);
      EXPECT_EQ(broken, 0) << first << (for_ever ? ", for ever" : ", once");
    }
  }
  EXPECT_GT(runs, 700);
  RecordProperty("runs", runs);
}

TEST(CallFaults, InterruptionsAndShortWrites) {
  int broken = 0;
  std::string first;
  loop({.error = EINTR, .bite = 5}, false, broken, first);
  EXPECT_EQ(broken, 0) << first;
}

TEST(CallFaultsTwin, AProtocolThatIgnoresAFailedSyncIsCaught) {
  int broken = 0;
  std::string first;
  loop({.error = EIO}, true, broken, first);
  EXPECT_GT(broken, 0);
}

}  // namespace
}  // namespace norma::io
