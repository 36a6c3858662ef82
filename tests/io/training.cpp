#include "tests/io/training.h"

#include <algorithm>

#include "norma/base/text.h"
#include "norma/io/safetensors.h"

namespace norma::io {

namespace {

constexpr std::uint64_t kInterval = 100;

std::string weights(std::uint64_t step, std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(step * 131 + i * 7 + 1);
  return text;
}

}  // namespace

void save(FileSystem& disk, const std::string& parent, std::uint64_t step, std::size_t bytes) {
  Commit commit(disk, parent, step);
  commit.write("model.safetensors", [&](ByteSink& sink) {
    SafetensorsWriter writer(sink, {{"w", find_stored_type("U8"), {bytes}}}, {{"format", "pt"}});
    const std::string data = weights(step, bytes);
    writer.write("w", std::as_bytes(std::span(data)));
    writer.finish();
  });
  commit.write("state.json",
               [&](ByteSink& sink) { write_text(sink, say("{\"step\":", step, "}")); });
  commit.finish({{"recipe", "f00d"}});
}

void train(FileSystem& disk, std::uint64_t last, Story& story) {
  const RunLock lock(disk, kRun);
  prepare_checkpoints(disk, kParent, lock, 1000);
  const NewestCheckpoint newest = newest_whole(disk, kParent);
  std::uint64_t step = newest.whole ? newest.whole->step : 0;
  while (step < last) {
    step += kInterval;
    save(disk, kParent, step);
    story.saved.push_back(step);
    retain(disk, kParent, {.last = 2});
  }
}

testing::AssertionResult keeps_its_promises(FileSystem& disk, const Story& story) {
  std::vector<std::uint64_t> whole;
  try {
    for (const std::string& name : list_folder(disk, kParent)) {
      if (!step_of(name)) continue;
      whole.push_back(verify(disk, join(kParent, name)).step);
    }
  } catch (const FileError& error) {
    if (error.code() != ENOENT || !story.saved.empty()) {
      return testing::AssertionFailure() << error.what();
    }
  } catch (const DamagedError& error) {
    return testing::AssertionFailure() << "visible but damaged: " << error.what();
  }
  const std::size_t kept = std::min<std::size_t>(story.saved.size(), 2);
  for (auto step = story.saved.end() - static_cast<std::ptrdiff_t>(kept); step != story.saved.end();
       ++step) {
    if (std::find(whole.begin(), whole.end(), *step) == whole.end()) {
      return testing::AssertionFailure() << "acknowledged but lost: step " << *step;
    }
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult recovers(FileSystem& disk, const Story& story) {
  const testing::AssertionResult before = keeps_its_promises(disk, story);
  if (!before) return before;
  Story more = story;
  const std::uint64_t goal = (story.saved.empty() ? 0 : story.saved.back()) + 3 * kInterval;
  try {
    train(disk, goal, more);
  } catch (const Error& error) {
    return testing::AssertionFailure() << "the next run failed: " << error.what();
  }
  for (const std::string& name : list_folder(disk, kParent)) {
    if (!step_of(name)) return testing::AssertionFailure() << "left behind: " << name;
  }
  if (more.saved.empty() || more.saved.back() != goal) {
    return testing::AssertionFailure() << "the next run did not reach step " << goal;
  }
  return keeps_its_promises(disk, more);
}

}  // namespace norma::io
