#include "norma/train/run_folder.h"

#include <charconv>
#include <ctime>
#include <optional>

#include <unistd.h>

#include "norma/base/build_info.h"
#include "norma/base/error.h"
#include "norma/base/json_line.h"
#include "norma/base/text.h"
#include "norma/base/threads.h"
#include "norma/device/device.h"
#include "norma/text/bpe_files.h"

namespace norma {

namespace {

constexpr const char* kRecipe = "recipe.toml";
constexpr const char* kEnvironment = "env.json";
constexpr const char* kMetrics = "metrics.jsonl";
constexpr const char* kSamples = "samples.jsonl";
constexpr const char* kCheckpoints = "checkpoints";
constexpr const char* kChoices = "gpu_choices.txt";
constexpr const char* kLog = "log.txt";
constexpr const char* kDone = "DONE";
constexpr const char* kFailed = "FAILED";

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

/// Bits depend on the card. A run that was imported may never see one.
void add_gpu(JsonLine& line) {
  if (!device::available()) return;
  const device::Info gpu = device::info();
  line.add("gpu", gpu.name)
      .add("gpu_bytes", static_cast<Index>(gpu.total_bytes))
      .add("cuda", gpu.driver);
}

std::string environment_text(const Recipe& recipe) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  JsonLine line;
  line.add("version", build::kVersion)
      .add("commit", build::kCommit)
      .add("changed", build::kDirty)
      .add("compiler", build::kCompiler)
      .add("host", host)
      .add("threads", thread_count())
      .add("started", utc_now());
  if (recipe.train.device == DeviceKind::cuda) add_gpu(line);
  return line.text() + "\n";
}

bool is_folder(io::FileSystem& disk, const std::string& path) {
  return io::File(disk, path, io::OpenAs::read).info().kind == io::FileInfo::Kind::folder;
}

void require_free(io::FileSystem& disk, const std::string& path) {
  if (!io::is_there(disk, path)) return;
  if (!is_folder(disk, path)) {
    throw RequestError(say("--out must be a folder, but ", path, " is a file."));
  }
  if (io::is_there(disk, io::join(path, kRecipe))) {
    throw RequestError(say(path,
                           " holds a run already; give another --out, go on with --resume, or "
                           "replace it with --force."));
  }
}

/// Removes what a run writes and nothing else: the folder may hold more. The recipe goes last, so
/// that a folder of which only a part was removed still counts as a run.
void remove_run(io::FileSystem& disk, const std::string& path) {
  const std::string checkpoints = checkpoints_of(path);
  if (io::is_there(disk, checkpoints)) {
    for (const std::string& name : io::list_folder(disk, checkpoints)) {
      io::remove_flat_folder(disk, io::join(checkpoints, name));
    }
    io::remove_flat_folder(disk, checkpoints);
  }
  for (const char* name : {kDone,
                           kFailed,
                           kMetrics,
                           "probes.jsonl",
                           kSamples,
                           kChoices,
                           kLog,
                           kEnvironment,
                           text::kTokenizerFile}) {
    io::remove_file(disk, io::join(path, name));
  }
  io::sync_folder(disk, path);
  io::remove_file(disk, io::join(path, kRecipe));
  io::sync_folder(disk, path);
}

/// Of a line {"step":N,…}; nothing for other lines.
std::optional<Index> step_of_line(std::string_view line) {
  constexpr std::string_view kStep = "{\"step\":";
  if (!line.starts_with(kStep) || !line.ends_with("}")) return std::nullopt;
  Index step = 0;
  const char* end = line.data() + line.size();
  if (std::from_chars(line.data() + kStep.size(), end, step).ec != std::errc()) return std::nullopt;
  return step;
}

}  // namespace

RunFolder::RunFolder(io::FileSystem& disk,
                     std::string path,
                     Open how,
                     const Recipe& recipe,
                     const std::string& tokenizer)
    : disk_(disk),
      path_(std::move(path)),
      metrics_(disk, io::join(path_, kMetrics)),
      samples_(disk, io::join(path_, kSamples)),
      log_(disk, io::join(path_, kLog)) {
  if (how == Open::fresh) require_free(disk_, path_);
  io::make_folders(disk_, io::parent_of(path_));
  io::make_folder(disk_, path_);
  lock_ = std::make_unique<io::RunLock>(disk_, path_);
  for (const std::string& name : io::list_folder(disk_, path_)) {
    if (io::left_by_replace_file(name)) io::remove_file(disk_, io::join(path_, name));
  }
  if (how == Open::replace) remove_run(disk_, path_);
  if (how == Open::resume && io::remove_file(disk_, io::join(path_, kFailed))) {
    io::sync_folder(disk_, path_);
  }
  // A run that was killed while it started may lack them.
  if (!io::is_there(disk_, io::join(path_, kEnvironment))) {
    write_file(kEnvironment, environment_text(recipe));
  }
  // Before the recipe, which makes the folder a run: a run that knows its tokenizer has it.
  if (!tokenizer.empty() && !io::is_there(disk_, io::join(path_, text::kTokenizerFile))) {
    write_file(text::kTokenizerFile, tokenizer);
  }
  if (!io::is_there(disk_, io::join(path_, kRecipe))) write_file(kRecipe, recipe_text(recipe));
}

void RunFolder::write_file(const std::string& name, const std::string& text) const {
  io::replace_file(disk_, io::join(path_, name), text);
}

void RunFolder::add_metrics(const std::string& json) { metrics_.add(json); }
void RunFolder::add_sample(const std::string& json) { samples_.add(json); }

void RunFolder::log(const std::string& line) {
  try {
    log_.add(say(utc_now(), " ", line));
  } catch (const Error&) {
    // It waits for the next line.
  }
}

void RunFolder::sync_lines() {
  metrics_.sync();
  samples_.sync();
  io::sync_folder(disk_, path_);
}

void RunFolder::drop_lines_after(LastSteps steps) {
  const auto up_to = [](Index step) {
    return [step](std::string_view line) {
      const std::optional<Index> at = step_of_line(line);
      return at && *at <= step;
    };
  };
  metrics_.keep_while(up_to(steps.metrics));
  if (io::is_there(disk_, io::join(path_, kSamples))) samples_.keep_while(up_to(steps.samples));
}

void RunFolder::mark_done(const std::string& summary) { write_file(kDone, summary + "\n"); }
void RunFolder::mark_failed(const std::string& reason) { write_file(kFailed, reason + "\n"); }

std::string choices_of(const std::string& run) { return io::join(run, kChoices); }

std::string checkpoints_of(const std::string& run) { return io::join(run, kCheckpoints); }

bool is_run(io::FileSystem& disk, const std::string& run) {
  return io::is_there(disk, io::join(run, kRecipe));
}

bool is_done(io::FileSystem& disk, const std::string& run) {
  return io::is_there(disk, io::join(run, kDone));
}

Recipe recipe_of_run(const std::string& run, io::FileSystem& disk) {
  const std::string path = io::join(run, kRecipe);
  if (!is_run(disk, run)) {
    throw RequestError(say(run, " is not a run: it has no ", kRecipe, "."));
  }
  const std::string text = io::File(disk, path, io::OpenAs::read).text(Settings::kLargestFile);
  return read_recipe(Settings::from_toml(text, path));
}

}  // namespace norma
