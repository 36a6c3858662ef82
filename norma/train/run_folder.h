// The folder of a run, the only contract between training and everything that looks at it.
#pragma once

#include <memory>
#include <string>

#include "norma/io/line_file.h"
#include "norma/io/run_lock.h"
#include "norma/train/recipe.h"

namespace norma {

class RunFolder {
 public:
  enum class Open : std::uint8_t {
    fresh,    // must not hold a run yet
    replace,  // what it holds of a run is removed
    resume    // goes on with what it holds
  };
  /// Makes the folder where it is absent, takes its lock, and writes recipe.toml, env.json and,
  /// where the data know their tokenizer, tokenizer.json where they are absent. Throws RequestError
  /// where a run is there that was not to be touched.
  RunFolder(io::FileSystem& disk,
            std::string path,
            Open how,
            const Recipe& recipe,
            const std::string& tokenizer);

  const std::string& path() const { return path_; }
  const io::RunLock& lock() const { return *lock_; }
  /// A file that appears whole or not at all.
  void write_file(const std::string& name, const std::string& text) const;
  /// Appends a line to metrics.jsonl, visible to readers at once. Where the disk does not take it,
  /// throws, and the line goes out with the next one.
  void add_metrics(const std::string& json);
  /// The same for samples.jsonl.
  void add_sample(const std::string& json);
  /// Appends a line with the time to log.txt. Never throws: the log is for people, and what it says
  /// was said elsewhere too.
  void log(const std::string& line);
  /// Makes metrics and samples durable. Called before a checkpoint is committed, so that they hold
  /// everything up to it.
  void sync_lines();
  /// Removes lines after these steps: they will be written again.
  struct LastSteps {
    Index metrics = 0;
    Index samples = 0;
  };
  void drop_lines_after(LastSteps steps);
  void mark_done(const std::string& summary);
  void mark_failed(const std::string& reason);

 private:
  io::FileSystem& disk_;
  std::string path_;
  std::unique_ptr<io::RunLock> lock_;
  io::LineFile metrics_;
  io::LineFile samples_;
  io::LineFile log_;
};

/// Whether the folder holds a run that ended well.
bool is_done(io::FileSystem& disk, const std::string& run);
/// recipe.toml of a run as a recipe. Throws RequestError where the folder is no run.
Recipe recipe_of_run(const std::string& run, io::FileSystem& disk = io::real_file_system());
/// Where a run keeps its checkpoints.
std::string checkpoints_of(const std::string& run);
/// Where a run on a GPU keeps its choices (kept_choices.h).
std::string choices_of(const std::string& run);
/// Whether the folder holds a run, in whatever state.
bool is_run(io::FileSystem& disk, const std::string& run);

}  // namespace norma
