#include "norma/train/run_folder.h"

#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <unistd.h>

#include "norma/base/build_info.h"
#include "norma/base/error.h"
#include "norma/base/json_line.h"
#include "norma/base/text.h"
#include "norma/base/threads.h"

namespace norma {

namespace fs = std::filesystem;

namespace {

constexpr const char* kRecipe = "recipe.toml";
constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kMetrics = "metrics.jsonl";
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

std::string environment_text() {
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
  return line.text() + "\n";
}

void require_free(const std::string& path) {
  if (fs::exists(fs::path(path) / kRecipe)) {
    throw RequestError(say(path,
                           " holds a run already; give another --out, go on with --resume, or "
                           "replace it with --force."));
  }
  if (fs::exists(path) && !fs::is_directory(path)) {
    throw RequestError(say("--out must be a folder, but ", path, " is a file."));
  }
}

/// Removes what a run writes and nothing else: the folder may hold more.
void remove_run(const std::string& path) {
  for (const char* name : {kRecipe,
                           kTokenizer,
                           "env.json",
                           kMetrics,
                           "probes.jsonl",
                           "samples.jsonl",
                           kLog,
                           kDone,
                           kFailed}) {
    fs::remove(fs::path(path) / name);
  }
  fs::remove_all(fs::path(path) / "checkpoints");
}

}  // namespace

RunFolder::RunFolder(io::FileSystem& disk,
                     std::string path,
                     Open how,
                     const Recipe& recipe,
                     const std::string& tokenizer)
    : path_(std::move(path)) {
  if (how == Open::fresh) require_free(path_);
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) throw Error(say("cannot make the folder ", path_, ": ", error.message(), "."));
  lock_ = std::make_unique<io::RunLock>(disk, path_);
  if (how == Open::replace) remove_run(path_);
  if (how == Open::resume) {
    fs::remove(fs::path(path_) / kFailed);
    return;
  }
  // Before the recipe, which makes the folder a run: a run that knows its tokenizer has it.
  if (!tokenizer.empty()) write_file(kTokenizer, tokenizer);
  write_file(kRecipe, recipe_text(recipe));
  write_file("env.json", environment_text());
}

void RunFolder::write_file(const std::string& name, const std::string& text) const {
  // Written beside and renamed, so that a reader never sees half a file.
  const fs::path target = fs::path(path_) / name;
  const fs::path fresh = fs::path(path_) / (name + ".new");
  {
    std::ofstream file(fresh, std::ios::binary);
    file << text;
    file.flush();
    if (!file) throw Error(say("cannot write ", fresh.string(), "; is the disk full?"));
  }
  fs::rename(fresh, target);
}

void RunFolder::append(const std::string& name, const std::string& text) const {
  const fs::path target = fs::path(path_) / name;
  std::ofstream file(target, std::ios::binary | std::ios::app);
  file << text;
  file.flush();
  if (!file) throw Error(say("cannot write ", target.string(), "; is the disk full?"));
}

void RunFolder::add_metrics(const std::string& json) { append(kMetrics, json + "\n"); }

void RunFolder::log(const std::string& line) { append(kLog, say(utc_now(), " ", line, "\n")); }

void RunFolder::drop_metrics_after(Index step) {
  std::ifstream file(fs::path(path_) / kMetrics, std::ios::binary);
  std::string kept;
  std::string line;
  while (std::getline(file, line)) {
    constexpr std::string_view kStep = "{\"step\":";
    const bool whole = line.starts_with(kStep) && line.ends_with("}");
    if (whole && std::strtoll(line.c_str() + kStep.size(), nullptr, 10) <= step)
      kept += line + "\n";
  }
  write_file(kMetrics, kept);
}

void RunFolder::mark_done(const std::string& summary) { write_file(kDone, summary + "\n"); }
void RunFolder::mark_failed(const std::string& reason) { write_file(kFailed, reason + "\n"); }

bool is_done(const std::string& run) { return fs::exists(fs::path(run) / kDone); }

Recipe recipe_of_run(const std::string& run) {
  const std::string path = (fs::path(run) / kRecipe).string();
  if (!fs::exists(path)) throw RequestError(say(run, " is not a run: it has no ", kRecipe, "."));
  return load_recipe(path, {});
}

}  // namespace norma
