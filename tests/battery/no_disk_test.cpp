// K5: a folder that is read-only, somebody else's, no folder at all, or gone.
#include <cerrno>
#include <filesystem>

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/battery/workshop.h"
#include "tests/support/pass_through_disk.h"

namespace norma::battery {
namespace {

namespace fs = std::filesystem;

/// Nothing was trained for a folder that cannot take it, and the reason was said.
testing::AssertionResult refused(const Ended& ended, const std::string& part) {
  if (ended.code == 1 && has(ended.out, part) && !has(ended.out, "step 1/")) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << ended.code << ": " << ended.out.substr(0, 2000);
}

TEST(TrainNoDisk, AReadOnlyFileSystemIsToldBeforeTheFirstStep) {
  const SmallDisk disk("size=2m");
  if (!disk.mounted()) GTEST_SKIP() << "only root may mount a read-only file system";
  disk.make_read_only();
  EXPECT_TRUE(refused(Workshop().finish(disk / "run", {"train.steps=3"}), "(EROFS)"));
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
  EXPECT_TRUE(refused(ended, "Permission denied (EACCES)"));
}

TEST(TrainNoDisk, AFileInThePlaceOfAFolderIsTold) {
  const Workshop workshop;
  EXPECT_TRUE(refused(workshop.finish(workshop.path("book.txt/run"), {}), "(ENOTDIR)"));
}

/// The run was told, trained to its last step all the same, and did not make the folder again.
testing::AssertionResult outlives(const Ended& ended, const std::string& run) {
  const bool told = has(ended.out, "norma: warning: cannot") &&
                    has(ended.out, "No such file or directory (ENOENT)");
  if (ended.code == 1 && told && has(ended.out, "step 99/100") && !fs::exists(run)) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << ended.code << ": " << ended.out.substr(0, 2000);
}

TEST(TrainNoDisk, AFolderThatVanishesIsToldAndTrainingGoesOn) {
  const Workshop workshop;
  const std::string run = workshop.path("run");
  Child child(norma_program(), workshop.arguments(run, {"train.steps=100"}));
  ASSERT_TRUE(wait_until([&] { return last_step_of_metrics(metrics_of(run)) >= 3; }, 60));
  fs::rename(run, workshop.path("moved"));
  EXPECT_TRUE(outlives(child.wait(), run));
}

/// Says that it did what the folder does not allow, as a program that does not look at answers.
class CarelessDisk final : public test::PassThroughDisk {
 public:
  using PassThroughDisk::PassThroughDisk;
  io::Answer open(const std::string& path, io::OpenAs how) override {
    const io::Answer got = PassThroughDisk::open(path, how);
    const bool looks = how == io::OpenAs::read || how == io::OpenAs::look;
    if (looks || (got.error != EROFS && got.error != ENOENT)) return got;
    return how == io::OpenAs::folder ? PassThroughDisk::open("/", how)
                                     : PassThroughDisk::open("/dev/null", io::OpenAs::append);
  }
  io::Answer truncate(int handle, std::uint64_t bytes) override {
    PassThroughDisk::truncate(handle, bytes);
    return {};
  }
  io::Answer make_folder(const std::string& path) override {
    return pass(PassThroughDisk::make_folder(path));
  }
  io::Answer rename(const std::string& from, const std::string& to) override {
    return pass(PassThroughDisk::rename(from, to));
  }
  io::Answer replace(const std::string& from, const std::string& to) override {
    return pass(PassThroughDisk::replace(from, to));
  }
  io::Answer list(const std::string& folder, std::vector<std::string>& names) override {
    return pass(PassThroughDisk::list(folder, names));
  }
  io::Answer remove_file(const std::string& path) override {
    return pass(PassThroughDisk::remove_file(path));
  }
  io::Answer remove_folder(const std::string& path) override {
    return pass(PassThroughDisk::remove_folder(path));
  }
  io::Answer free_bytes(const std::string&) override { return PassThroughDisk::free_bytes("/"); }
  io::Answer sync(int handle) override {
    PassThroughDisk::sync(handle);
    return {};
  }

 private:
  static io::Answer pass(io::Answer got) {
    return got.error == EROFS || got.error == ENOENT ? io::Answer{} : got;
  }
};

TEST(TrainNoDiskTwin, AReadOnlyFolderThatNobodyNoticesIsCaught) {
  const SmallDisk disk("size=2m");
  if (!disk.mounted()) GTEST_SKIP() << "only root may mount a read-only file system";
  disk.make_read_only();
  const auto train = [&](bool careless) {
    return Child([&] {
             CarelessDisk lying(io::real_file_system());
             train_as_program(careless ? lying : io::real_file_system(), disk / "run", {});
           })
        .wait();
  };
  EXPECT_TRUE(refused(train(false), "(EROFS)"));
  const Ended blind = train(true);
  EXPECT_FALSE(refused(blind, "(EROFS)"));
  EXPECT_TRUE(has(blind.out, "step 1/")) << blind.out;
}

TEST(TrainNoDiskTwin, AVanishedFolderThatNobodyNoticesIsCaught) {
  for (const bool careless : {false, true}) {
    const test::TempFolder folder;
    const std::string run = folder / "run";
    Child child([&] {
      CarelessDisk lying(io::real_file_system());
      train_as_program(careless ? lying : io::real_file_system(), run, {"train.steps=100"});
    });
    ASSERT_TRUE(wait_until([&] { return last_step_of_metrics(metrics_of(run)) >= 3; }, 60));
    fs::rename(run, folder / "moved");
    EXPECT_EQ(static_cast<bool>(outlives(child.wait(), run)), !careless);
  }
}

}  // namespace
}  // namespace norma::battery
