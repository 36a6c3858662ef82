#include "tests/battery/small_run.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "norma/base/error.h"
#include "norma/base/rng.h"
#include "norma/base/text.h"
#include "norma/base/threads.h"
#include "norma/io/checkpoints.h"

namespace norma::battery {

namespace {

/// Threads that wait for each other cost more than these models, above all on a busy machine.
class OneThread : public testing::Environment {
 public:
  void SetUp() override { set_thread_count(1); }
};
[[maybe_unused]] const auto* const kOneThread = testing::AddGlobalTestEnvironment(new OneThread);

}  // namespace

Recipe tiny_recipe(const std::vector<std::string>& changes) {
  Settings given = Settings::from_toml(R"(
model = { layers = 1, width = 8, heads = 2, context = 8, vocab = 16 }
scheme = { base = "dnt" }
optim = { name = "adamw", lr = 3e-3 }
schedule = { name = "constant" }
train = { steps = 5, batch = 2, log_every = 1, checkpoint_every = 1, threads = 1 }
)",
                                       "test");
  for (const std::string& change : changes) given.set_assignment(change);
  return read_recipe(given);
}

TokenData tiny_data() {
  auto bytes = std::make_shared<std::string>();
  for (std::uint64_t i = 0; i < 600; ++i) {
    bytes->push_back(static_cast<char>((i % 5 + random_word({1, 1}, i) % 3) % 16));
  }
  TokenData data;
  data.vocab = 16;
  const TokenView all{reinterpret_cast<const std::byte*>(bytes->data()), 600, 1};
  data.train = all.part(0, 500);
  data.val = all.part(500, 100);
  data.owner = bytes;
  return data;
}

Story run(io::FileSystem& disk, const Recipe& recipe, const RunRequest& request) {
  Story story;
  try {
    const auto onlooker = [&](const RunProgress& progress) {
      if (progress.trouble.empty()) {
        story.saved = progress.step;
      } else {
        story.troubles.push_back(progress.trouble);
      }
    };
    train_run(recipe, tiny_data(), request, onlooker, disk);
  } catch (const Error& error) {
    story.end = error.what();
  }
  return story;
}

std::string weights_of(const test::MemoryDisk& disk, Index step) {
  const std::string folder =
      io::join(kCheckpoints, io::step_folder_name(static_cast<std::uint64_t>(step)));
  return disk.bytes_of(folder + "/model.safetensors") +
         disk.bytes_of(folder + "/optimizer.safetensors");
}

std::string metrics_up_to(const std::string& metrics, Index step) {
  std::string kept;
  std::size_t at = 0;
  while (at < metrics.size()) {
    const std::size_t end = metrics.find('\n', at);
    if (end == std::string::npos) break;  // torn: a run that goes on cuts it off
    const std::string line = metrics.substr(at, end - at);
    at = end + 1;
    constexpr std::string_view kStep = "{\"step\":";
    if (!line.starts_with(kStep)) continue;
    if (std::strtoll(line.c_str() + kStep.size(), nullptr, 10) > step) continue;
    std::size_t field = 0;
    while (field < line.size()) {
      const std::size_t comma = std::min(line.find(',', field), line.size());
      const std::string_view part = std::string_view(line).substr(field, comma - field);
      const bool clocked = part.starts_with("\"time_s\"") || part.starts_with("\"perf/") ||
                           part.starts_with("\"mem/");
      if (!clocked) kept.append(part).push_back(',');
      field = comma + 1;
    }
    kept.push_back('\n');
  }
  return kept;
}

testing::AssertionResult keeps_its_promises(io::FileSystem& disk,
                                            const Story& story,
                                            const std::string& reference_metrics) {
  try {
    const io::NewestCheckpoint newest = io::newest_whole(disk, kCheckpoints);
    if (!newest.skipped.empty()) {
      return testing::AssertionFailure() << "visible but damaged: " << newest.skipped[0].why;
    }
    const Index step = newest.whole ? static_cast<Index>(newest.whole->step) : 0;
    if (step < story.saved) {
      return testing::AssertionFailure() << "acknowledged but lost: step " << story.saved;
    }
    if (step == 0) return testing::AssertionSuccess();
    const std::string metrics =
        io::File(disk, kRun + "/metrics.jsonl", io::OpenAs::read).text(1 << 20);
    if (metrics_up_to(metrics, step) != metrics_up_to(reference_metrics, step)) {
      return testing::AssertionFailure() << "metrics differ up to step " << step << ":\n"
                                         << metrics;
    }
  } catch (const Error& error) {
    return testing::AssertionFailure() << error.what();
  }
  return testing::AssertionSuccess();
}

Reference::Reference(const Recipe& recipe) {
  test::MemoryDisk disk;
  const Story story = run(disk, recipe);
  if (!story.end.empty() || !story.troubles.empty()) throw Error("the reference failed.");
  metrics = disk.bytes_of(kRun + "/metrics.jsonl");
  weights = weights_of(disk, recipe.train.steps);
}

testing::AssertionResult recovers(test::MemoryDisk& disk,
                                  const Recipe& recipe,
                                  const Story& story,
                                  const Reference& reference) {
  const testing::AssertionResult kept = keeps_its_promises(disk, story, reference.metrics);
  if (!kept) return kept;
  const Story again = resume(disk, recipe);
  if (!again.end.empty()) return testing::AssertionFailure() << "resuming: " << again.end;
  if (!again.troubles.empty()) return testing::AssertionFailure() << again.troubles[0];
  if (weights_of(disk, recipe.train.steps) != reference.weights) {
    return testing::AssertionFailure() << "the resumed run has other weights";
  }
  const std::string metrics = disk.bytes_of(kRun + "/metrics.jsonl");
  if (metrics_up_to(metrics, recipe.train.steps) !=
      metrics_up_to(reference.metrics, recipe.train.steps)) {
    return testing::AssertionFailure() << "the resumed run has other metrics:\n" << metrics;
  }
  return testing::AssertionSuccess();
}

}  // namespace norma::battery
