// K4: a disk that is full, fills up or has a limit on the size of files.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string_view>

#include <sys/resource.h>

#include <gtest/gtest.h>

#include "norma/base/build_info.h"
#include "norma/io/checkpoints.h"
#include "tests/battery/workshop.h"
#include "tests/support/pass_through_disk.h"

namespace norma::battery {
namespace {

namespace fs = std::filesystem;

/// The run said so, failed, and left nothing under a final name that is not whole.
testing::AssertionResult tells_of_the_limit(const Ended& ended, const std::string& run) {
  if (!fs::is_empty(run + "/checkpoints")) {
    return testing::AssertionFailure() << "a checkpoint that cannot be whole is there";
  }
  if (fs::exists(run + "/DONE")) return testing::AssertionFailure() << "it is marked as done";
  const bool told = has(ended.out, "norma: warning: cannot write") && has(ended.out, "(EFBIG)") &&
                    has(ended.out, "ulimit -f");
  if (ended.code != 1 || !told) return testing::AssertionFailure() << ended.code << ended.out;
  return testing::AssertionSuccess();
}

void limit_file_sizes() {
  const rlimit small{8192, 8192};
  ::setrlimit(RLIMIT_FSIZE, &small);
}

TEST(TrainFullDisk, ALimitOnFileSizesIsASentence) {
  if (std::string_view(build::kSanitizers) == "thread") {
    GTEST_SKIP() << "the thread sanitizer keeps notes in a file of its own, which the limit cuts";
  }
  const Workshop workshop;
  const std::string run = workshop.path("run");
  Child child(norma_program(), workshop.arguments(run, {"train.steps=3"}), limit_file_sizes);
  EXPECT_TRUE(tells_of_the_limit(child.wait(), run));
  EXPECT_EQ(workshop.finish(run, {"train.steps=3", "--resume"}).code, 0);
}

/// Drops what the disk refuses and says that it was written, as a program that does not look at
/// the answers of its writes.
class CarelessDisk final : public test::PassThroughDisk {
 public:
  using PassThroughDisk::PassThroughDisk;
  io::Answer write(int handle, io::Bytes bytes) override {
    const io::Answer got = PassThroughDisk::write(handle, bytes);
    return got.error == 0 ? got : io::Answer{.value = static_cast<std::int64_t>(bytes.size())};
  }
};

TEST(TrainFullDiskTwin, WritesThatNobodyLooksAtAreCaught) {
  const test::TempFolder folder;
  const std::string run = folder / "run";
  const auto train = [&](bool careless) {
    fs::remove_all(run);
    return Child([&] {
             std::signal(SIGXFSZ, SIG_IGN);
             limit_file_sizes();
             CarelessDisk lying(io::real_file_system());
             train_as_program(careless ? lying : io::real_file_system(),
                              run,
                              {"train.steps=3", "model.width=32"});
           })
        .wait();
  };
  EXPECT_TRUE(tells_of_the_limit(train(false), run));
  EXPECT_FALSE(tells_of_the_limit(train(true), run));
}

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
  ASSERT_TRUE(wait_until([&] { return last_step_of_metrics(metrics_of(run)) >= 3; }, 60));
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

}  // namespace
}  // namespace norma::battery
