#include "norma/io/commit.h"

#include <cerrno>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "norma/io/digest.h"
#include "norma/io/safetensors.h"
#include "tests/io/training.h"
#include "tests/support/expect.h"
#include "tests/support/memory_disk.h"
#include "tests/support/temp_folder.h"

namespace norma::io {
namespace {

using test::MemoryDisk;
using test::throws;

TEST(StepNames, OneSpellingPerStep) {
  EXPECT_EQ(step_folder_name(0), "step-00000000");
  EXPECT_EQ(step_folder_name(1234), "step-00001234");
  EXPECT_EQ(step_folder_name(123456789012), "step-123456789012");
  for (const std::uint64_t step : {0UL, 7UL, 99999999UL, 100000000UL, 999999999999999999UL}) {
    EXPECT_EQ(step_of(step_folder_name(step)), step);
  }
  for (const char* name : {"step-",
                           "step-1",
                           "step-000000001",
                           "step-0000000x",
                           "step-00000001.tmp.1",
                           "Step-00000001",
                           "step-99999999999999999999",
                           "latest",
                           ""}) {
    EXPECT_EQ(step_of(name), std::nullopt) << name;
  }
}

TEST(Manifest, IsWrittenLikeThisAndReadBack) {
  Manifest manifest{
      .step = 7, .facts = {{"recipe", "ab"}}, .files = {{"m", {.bytes = 3, .digest = "0f"}}}};
  const std::string text = text_of(manifest);
  const std::string body =
      "{\n  \"format\": \"norma-checkpoint\",\n  \"version\": 1,\n  \"step\": 7,\n  \"facts\": {\n"
      "    \"recipe\": \"ab\"\n  },\n  \"files\": {\n    \"m\": {\"bytes\": 3, \"xxh3_128\": "
      "\"0f\"}\n  }";
  EXPECT_EQ(
      text,
      body + ",\n  \"digest\": \"" + digest_of(std::as_bytes(std::span(body))).text() + "\"\n}\n");
  EXPECT_EQ(parse_manifest("M", text), manifest);
  EXPECT_EQ(parse_manifest("M", text_of(Manifest{})), Manifest{});
}

// A manifest from a hand that also computed the digest.
TEST(Manifest, ForgedOnesAreStillChecked) {
  const auto refused = [](std::string body, std::string_view complaint) {
    const std::string text =
        body + ",\n  \"digest\": \"" + digest_of(std::as_bytes(std::span(body))).text() + "\"\n}\n";
    return throws<Error>([&] { parse_manifest("M", text); }, {"M: JSON byte", complaint});
  };
  EXPECT_TRUE(refused(R"({"version":2)", "this program reads version 1, found version 2."));
  EXPECT_TRUE(refused(R"({"format":"other")", "expected the format norma-checkpoint"));
  EXPECT_TRUE(refused(R"({"files":{"../x":{}})", "not the name of a checkpoint's file"));
  EXPECT_TRUE(refused(R"({"files":{"MANIFEST.json":{}})", "not the name of a checkpoint's file"));
  EXPECT_TRUE(refused(R"({"files":{"a":{"size":1}})", "unknown key \"size\""));
  EXPECT_TRUE(refused(R"({"steps":1)", "unknown key \"steps\""));
  EXPECT_TRUE(refused(R"({"step":-1)", "found '-'"));
  const std::string body = R"({"step":1)";  // no format, no version
  const std::string text =
      body + ",\n  \"digest\": \"" + digest_of(std::as_bytes(std::span(body))).text() + "\"\n}\n";
  EXPECT_TRUE(throws<Error>([&] { parse_manifest("M", text); }, {"M is not in the form"}));
}

class CommitTest : public testing::Test {
 protected:
  CommitTest() { make_folder(disk_, "c"); }
  MemoryDisk disk_;
};

TEST_F(CommitTest, ACommitHasItsFilesAndNothingElseIsLeft) {
  save(disk_, "c", 5);
  EXPECT_EQ(list_folder(disk_, "c"), (std::vector<std::string>{"step-00000005"}));
  EXPECT_EQ(list_folder(disk_, "c/step-00000005"),
            (std::vector<std::string>{"MANIFEST.json", "model.safetensors", "state.json"}));
  const Manifest manifest = verify(disk_, "c/step-00000005");
  EXPECT_EQ(manifest.step, 5U);
  EXPECT_EQ(manifest.facts.at("recipe"), "f00d");
  EXPECT_EQ(manifest.files.at("state.json").bytes, 10U);
  EXPECT_EQ(SafetensorsFile(disk_, "c/step-00000005/model.safetensors").layout().tensors.size(),
            1U);
}

TEST_F(CommitTest, AnAbandonedCommitLeavesNothing) {
  {
    Commit commit(disk_, "c", 5);
    commit.write("a", [](ByteSink& sink) { write_text(sink, "x"); });
    EXPECT_EQ(list_folder(disk_, "c").size(), 1U);
  }
  EXPECT_TRUE(list_folder(disk_, "c").empty());
  EXPECT_TRUE(throws<Error>(
      [&] {
        Commit commit(disk_, "c", 5);
        commit.write("a", [](ByteSink&) { throw Error("the producer failed"); });
      },
      {"the producer failed"}));
  EXPECT_TRUE(list_folder(disk_, "c").empty());
}

TEST_F(CommitTest, NamesThatCannotBeFiles) {
  Commit commit(disk_, "c", 5);
  const auto nothing = [](ByteSink&) {};
  for (const char* name : {"", "..", "../a", "a/b", "MANIFEST.json"}) {
    EXPECT_TRUE(throws<RequestError>([&] { commit.write(name, nothing); }, {"cannot have a file"}));
  }
  commit.write("a", nothing);
  EXPECT_TRUE(throws<RequestError>([&] { commit.write("a", nothing); }, {"has it already"}));
}

TEST_F(CommitTest, TheSameCheckpointAgainIsKept) {
  save(disk_, "c", 5);
  save(disk_, "c", 5);
  EXPECT_EQ(list_folder(disk_, "c"), (std::vector<std::string>{"step-00000005"}));
  verify(disk_, "c/step-00000005");
}

TEST_F(CommitTest, AnotherWholeCheckpointOfTheStepIsNotReplaced) {
  save(disk_, "c", 5, 300);
  const std::string before = disk_.bytes_of("c/step-00000005/MANIFEST.json");
  EXPECT_TRUE(throws<Error>([&] { save(disk_, "c", 5, 301); },
                            {"c/step-00000005 already holds another whole checkpoint"}));
  EXPECT_EQ(disk_.bytes_of("c/step-00000005/MANIFEST.json"), before);
  EXPECT_EQ(list_folder(disk_, "c").size(), 1U);
}

TEST_F(CommitTest, ADamagedCheckpointOfTheStepIsReplaced) {
  save(disk_, "c", 5);
  disk_.put("c/step-00000005/state.json", "garbage!!!");
  save(disk_, "c", 5);
  verify(disk_, "c/step-00000005");
  EXPECT_EQ(list_folder(disk_, "c"),
            (std::vector<std::string>{"step-00000005", "step-00000005.del.0"}));
}

TEST_F(CommitTest, WhatIsWrongIsSaid) {
  save(disk_, "c", 5);
  const std::string folder = "c/step-00000005";
  const std::string state = disk_.bytes_of(folder + "/state.json");
  disk_.put(folder + "/state.json", state + " ");
  EXPECT_TRUE(throws<DamagedError>([&] { verify(disk_, folder); },
                                   {"state.json has 11 bytes; its manifest says 10."}));
  disk_.put(folder + "/state.json", "{\"step\":6}");
  EXPECT_TRUE(throws<DamagedError>([&] { verify(disk_, folder); }, {"state.json was changed"}));
  verify(disk_, folder, Depth::sizes);
  disk_.remove_file(folder + "/state.json");
  EXPECT_TRUE(throws<DamagedError>([&] { verify(disk_, folder); }, {"state.json is missing."}));
  disk_.remove_file(folder + "/MANIFEST.json");
  EXPECT_TRUE(throws<DamagedError>([&] { verify(disk_, folder); }, {"MANIFEST.json is missing."}));
  disk_.make_folder(folder + "/MANIFEST.json");
  EXPECT_TRUE(throws<DamagedError>([&] { verify(disk_, folder); }, {"not a regular file"}));
}

TEST_F(CommitTest, ARenamedCheckpointIsRecognized) {
  save(disk_, "c", 5);
  rename(disk_, "c/step-00000005", "c/step-00000006");
  EXPECT_TRUE(
      throws<DamagedError>([&] { verify(disk_, "c/step-00000006"); }, {"speaks of step 5"}));
}

// Every bit of every file of a checkpoint.
TEST_F(CommitTest, EveryFlippedBitIsDetected) {
  save(disk_, "c", 5, 300);
  const std::string folder = "c/step-00000005";
  long flips = 0;
  for (const std::string& name : list_folder(disk_, folder)) {
    const std::string path = join(folder, name);
    const std::string whole = disk_.bytes_of(path);
    for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit, ++flips) {
      std::string flipped = whole;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      disk_.put(path, flipped);
      ASSERT_TRUE(throws<DamagedError>([&] { verify(disk_, folder); }, {name}))
          << path << " bit " << bit;
    }
    disk_.put(path, whole);
  }
  verify(disk_, folder);
  RecordProperty("flips", static_cast<int>(flips));
  EXPECT_GT(flips, 5000);
}

TEST_F(CommitTest, EveryTruncationAndEveryHoleOfZerosIsDetected) {
  save(disk_, "c", 5, 120);
  const std::string folder = "c/step-00000005";
  for (const std::string& name : list_folder(disk_, folder)) {
    const std::string path = join(folder, name);
    const std::string whole = disk_.bytes_of(path);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      disk_.put(path, whole.substr(0, length));
      ASSERT_TRUE(throws<DamagedError>([&] { verify(disk_, folder); }, {name}))
          << path << " " << length;
      std::string hole = whole;
      hole.replace(length, whole.size() - length, whole.size() - length, '\0');
      if (hole == whole) continue;
      disk_.put(path, hole);
      ASSERT_TRUE(throws<DamagedError>([&] { verify(disk_, folder); }, {name}))
          << path << " " << length;
    }
    disk_.put(path, whole);
  }
}

TEST(Commit, WorksOnTheRealDisk) {
  const test::TempFolder folder;
  save(real_file_system(), folder.path(), 12, 3 << 20);  // several pieces
  EXPECT_EQ(verify(real_file_system(), folder / "step-00000012").step, 12U);
  EXPECT_EQ(list_folder(real_file_system(), folder.path()).size(), 1U);
}

// A real limit in a child: files may have 100 kB, and the second checkpoint is larger.
TEST(Commit, AFullDiskLeavesTheOlderCheckpointAndNothingElse) {
  const test::TempFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{.rlim_cur = 100'000, .rlim_max = 100'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    turn_file_size_signals_into_errors();
    try {
      save(real_file_system(), folder.path(), 1, 50'000);
      save(real_file_system(), folder.path(), 2, 200'000);
    } catch (const FileError& error) {
      ::_exit(error.code() == EFBIG ? 7 : 8);
    }
    ::_exit(9);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(list_folder(real_file_system(), folder.path()),
            (std::vector<std::string>{"step-00000001"}));
  EXPECT_EQ(verify(real_file_system(), folder / "step-00000001").step, 1U);
}

}  // namespace
}  // namespace norma::io
