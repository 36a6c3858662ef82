#include "norma/io/checkpoints.h"

#include <algorithm>
#include <cerrno>

#include <unistd.h>

#include "norma/base/text.h"

namespace norma::io {

namespace {

constexpr std::string_view kProbe = "probe";
constexpr std::string_view kTemporary = ".tmp.";
constexpr std::string_view kDeleted = ".del.";

// step-00000100.tmp.4711.0, step-00000100.del.0, probe.tmp.4711; nothing that a person might name.
bool is_leftover(std::string_view name) {
  for (const std::string_view mark : {kTemporary, kDeleted}) {
    const std::size_t at = name.find(mark);
    if (at == std::string_view::npos) continue;
    const std::string_view stem = name.substr(0, at);
    const std::string_view rest = name.substr(at + mark.size());
    const bool numbers = !rest.empty() && rest.find_first_not_of("0123456789.") == rest.npos;
    if (numbers && (step_of(stem) || stem == kProbe)) return true;
  }
  return false;
}

void require_inside(const std::string& parent, const RunLock& lock) {
  if (parent == lock.folder() || parent.starts_with(join(lock.folder(), ""))) return;
  throw RequestError(say("the lock of ", lock.folder(), " says nothing about ", parent, "."));
}

// Newest first.
std::vector<std::uint64_t> steps_in(FileSystem& system, const std::string& parent) {
  std::vector<std::uint64_t> steps;
  for (const std::string& name : list_folder(system, parent)) {
    if (const auto step = step_of(name)) steps.push_back(*step);
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

// Finds out before the first step what would else be found out after the first thousand.
void probe(FileSystem& system, const std::string& parent) {
  const std::string folder = join(parent, say(kProbe, kTemporary, ::getpid()));
  make_folder(system, folder);
  try {
    File file(system, join(folder, kProbe), OpenAs::create_new);
    write_text(file, "Can files be written here?\n");
    file.sync();
    file.close();
  } catch (const FileError&) {
    try {
      remove_flat_folder(system, folder);
    } catch (const FileError&) {
      // The first failure is the one to report; the probe goes with the leftovers.
    }
    throw;
  }
  remove_flat_folder(system, folder);
}

}  // namespace

void prepare_checkpoints(FileSystem& system,
                         const std::string& parent,
                         const RunLock& lock,
                         std::uint64_t bytes_wanted) {
  require_inside(parent, lock);
  make_folder(system, parent);
  remove_leftovers(system, parent, lock);
  const Answer free = system.free_bytes(parent);
  if (free.error != 0) throw FileError("ask for the free space of", parent, free.error);
  const auto available = static_cast<std::uint64_t>(free.value);
  if (available < bytes_wanted) {
    throw Error(say(parent,
                    " has ",
                    human_bytes(static_cast<double>(available)),
                    " of free space, and the checkpoints need ",
                    human_bytes(static_cast<double>(bytes_wanted)),
                    ". Free some space, keep fewer checkpoints, or choose another folder."));
  }
  probe(system, parent);
}

std::vector<std::string> remove_leftovers(FileSystem& system,
                                          const std::string& parent,
                                          const RunLock& lock) {
  require_inside(parent, lock);
  std::vector<std::string> removed;
  for (const std::string& name : list_folder(system, parent)) {
    if (!is_leftover(name)) continue;
    remove_flat_folder(system, join(parent, name));
    removed.push_back(name);
  }
  return removed;
}

NewestCheckpoint newest_whole(FileSystem& system, const std::string& parent) {
  NewestCheckpoint newest;
  std::vector<std::uint64_t> steps;
  try {
    steps = steps_in(system, parent);
  } catch (const FileError& error) {
    if (error.code() != ENOENT) throw;
  }
  for (const std::uint64_t step : steps) {
    const std::string folder = join(parent, step_folder_name(step));
    try {
      newest.whole = WholeCheckpoint{step, folder, verify(system, folder)};
      return newest;
    } catch (const Error& error) {
      newest.skipped.push_back({folder, error.what()});
    }
  }
  return newest;
}

std::vector<std::uint64_t> retain(FileSystem& system,
                                  const std::string& parent,
                                  const KeepRule& rule) {
  if (rule.last < 2) {
    throw RequestError(say("at least 2 checkpoints must be kept, got ",
                           rule.last,
                           ": behind a damaged one there must be a sound one."));
  }
  std::vector<std::uint64_t> removed;
  std::uint64_t whole = 0;
  for (const std::uint64_t step : steps_in(system, parent)) {
    const std::string name = step_folder_name(step);
    try {
      verify(system, join(parent, name), Depth::sizes);
    } catch (const DamagedError&) {
      continue;
    }
    const bool marked = rule.every > 0 && step % rule.every == 0;
    const bool wanted = std::find(rule.also.begin(), rule.also.end(), step) != rule.also.end();
    if (++whole <= rule.last || marked || wanted) continue;
    // Unlinking under the final name could leave half a checkpoint that looks like one.
    remove_flat_folder(system, move_aside(system, parent, name));
    removed.push_back(step);
  }
  return removed;
}

}  // namespace norma::io
