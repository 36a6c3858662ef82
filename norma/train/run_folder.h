// The folder of a run, the only contract between training and everything that looks at it.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

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
  /// Makes the folder where it is absent, takes its lock, and for a fresh run writes recipe.toml,
  /// env.json and, where the data know their tokenizer, tokenizer.json. Throws RequestError where a
  /// run is there that was not to be touched.
  RunFolder(io::FileSystem& disk,
            std::string path,
            Open how,
            const Recipe& recipe,
            const std::string& tokenizer);

  const std::string& path() const { return path_; }
  const io::RunLock& lock() const { return *lock_; }
  /// Appends a line to metrics.jsonl, and makes it visible to readers.
  void add_metrics(const std::string& json);
  /// Appends a line with the time to log.txt.
  void log(const std::string& line);
  /// Removes lines of metrics.jsonl after a step: they will be written again.
  void drop_metrics_after(Index step);
  void mark_done(const std::string& summary);
  void mark_failed(const std::string& reason);

 private:
  void write_file(const std::string& name, const std::string& text) const;
  void append(const std::string& name, const std::string& text) const;

  std::string path_;
  std::unique_ptr<io::RunLock> lock_;
};

/// Whether the folder holds a run that ended well.
bool is_done(const std::string& run);
/// recipe.toml of a run as a recipe.
Recipe recipe_of_run(const std::string& run);

}  // namespace norma
