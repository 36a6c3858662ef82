#include "norma/io/commit.h"

#include <algorithm>
#include <cerrno>
#include <vector>

#include "norma/base/text.h"
#include "norma/io/digest.h"
#include "norma/io/hashed_file.h"

namespace norma::io {

namespace {

constexpr std::size_t kPiece = 1 << 20;
constexpr std::uint64_t kMaxManifest = 16 << 20;
constexpr int kTries = 1000;  // of names of folders that are moved aside

constexpr std::string_view kStepPrefix = "step-";
constexpr std::size_t kStepDigits = 8;

bool taken(const FileError& error) { return error.code() == EEXIST || error.code() == ENOTEMPTY; }

// Opens a file of a checkpoint; that it is absent is damage, that the disk fails is not.
template <class Use>
void with_file(FileSystem& system, const std::string& path, Use&& use) {
  try {
    const File file(system, path, OpenAs::read);
    if (file.info().kind != FileInfo::Kind::file) {
      throw DamagedError(say(path, " is not a regular file."));
    }
    use(file);
  } catch (const FileError& error) {
    if (error.code() != ENOENT) throw;
    throw DamagedError(say(path, " is missing."));
  }
}

std::string digest_text(const File& file, std::uint64_t bytes) {
  Hasher hasher;
  std::vector<std::byte> piece(std::min<std::uint64_t>(bytes, kPiece));
  for (std::uint64_t at = 0; at < bytes; at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(bytes - at, kPiece));
    file.read(at, piece);
    hasher.add(piece);
  }
  return hasher.digest().text();
}

void check_file(const File& file, const ManifestFile& wanted, Depth depth) {
  const std::uint64_t bytes = file.info().bytes;
  if (bytes != wanted.bytes) {
    throw DamagedError(
        say(file.path(), " has ", bytes, " bytes; its manifest says ", wanted.bytes, "."));
  }
  if (depth == Depth::sizes) return;
  const std::string digest = digest_text(file, bytes);
  if (digest != wanted.digest) {
    throw DamagedError(say(file.path(),
                           " was changed: its digest is ",
                           digest,
                           ", its manifest says ",
                           wanted.digest,
                           "."));
  }
}

}  // namespace

std::string step_folder_name(std::uint64_t step) {
  const std::string digits = to_text(step);
  return say(
      kStepPrefix, std::string(kStepDigits - std::min(kStepDigits, digits.size()), '0'), digits);
}

std::optional<std::uint64_t> step_of(std::string_view folder_name) {
  constexpr std::size_t kMostDigits = 18;  // cannot overflow
  if (!folder_name.starts_with(kStepPrefix)) return std::nullopt;
  const std::string_view digits = folder_name.substr(kStepPrefix.size());
  if (digits.size() > kMostDigits) return std::nullopt;
  std::uint64_t step = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    step = step * 10 + static_cast<std::uint64_t>(c - '0');
  }
  if (step_folder_name(step) != folder_name) return std::nullopt;  // one spelling per step
  return step;
}

namespace {

std::string place_of(const std::string& parent, std::uint64_t step) {
  if (!step_of(step_folder_name(step)))
    throw RequestError(say("no checkpoint can be at step ", step));
  return join(parent, step_folder_name(step));
}

}  // namespace

Commit::Commit(FileSystem& system, std::string parent, std::uint64_t step)
    : system_(system), parent_(std::move(parent)), temporary_(system, place_of(parent_, step)) {
  manifest_.step = step;
}

void Commit::write(const std::string& name, const std::function<void(ByteSink&)>& produce) {
  if (!is_plain_file_name(name) || name == kManifestName || manifest_.files.contains(name)) {
    throw RequestError(
        say("a checkpoint cannot have a file of the name \"", name, "\", or has it already."));
  }
  HashedFile file(system_, join(temporary_.path(), name));
  produce(file);
  manifest_.files.emplace(name, file.finish());
}

std::string Commit::finish(std::map<std::string, std::string> facts) {
  manifest_.facts = std::move(facts);
  HashedFile file(system_, join(temporary_.path(), kManifestName));
  write_text(file, text_of(manifest_));
  file.finish();
  std::string folder = join(parent_, step_folder_name(manifest_.step));
  try {
    temporary_.give_name();
  } catch (const FileError& error) {
    if (!taken(error)) throw;
    settle_with_existing(folder);
  }
  return folder;
}

void Commit::settle_with_existing(const std::string& folder) {
  try {
    if (verify(system_, folder) == manifest_) {
      sync_folder(system_, parent_);
      return;
    }
  } catch (const DamagedError&) {
    move_aside(system_, parent_, last_part(folder));
    temporary_.give_name();
    return;
  }
  throw Error(say(folder,
                  " already holds another whole checkpoint of this step, and it was left as it is. "
                  "Move it away, or train into another folder."));
}

Manifest verify(FileSystem& system, const std::string& folder, Depth depth) {
  const std::string path = join(folder, kManifestName);
  Manifest manifest;
  with_file(system, path, [&](const File& file) {
    try {
      manifest = parse_manifest(path, file.text(kMaxManifest));
    } catch (const FileError&) {
      throw;
    } catch (const Error& error) {
      throw DamagedError(error.what());
    }
  });
  const std::string name = last_part(folder);
  if (step_of(name) && *step_of(name) != manifest.step) {
    throw DamagedError(say(path, " speaks of step ", manifest.step, "."));
  }
  for (const auto& [file_name, wanted] : manifest.files) {
    with_file(system, join(folder, file_name), [&, &entry = wanted](const File& file) {
      check_file(file, entry, depth);
    });
  }
  return manifest;
}

std::string move_aside(FileSystem& system, const std::string& parent, std::string_view name) {
  const std::string from = join(parent, name);
  for (int k = 0;; ++k) {
    std::string to = say(from, ".del.", k);
    try {
      rename(system, from, to);
      sync_folder(system, parent);
      return to;
    } catch (const FileError& error) {
      if (!taken(error) || k == kTries) throw;
    }
  }
}

}  // namespace norma::io
