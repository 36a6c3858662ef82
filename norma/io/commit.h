// A checkpoint appears whole or not at all. It is written into a temporary folder, made durable,
// and then renamed; docs/formats/checkpoint.md has the steps and what they guarantee.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "norma/io/file.h"
#include "norma/io/manifest.h"
#include "norma/io/temporary_folder.h"

namespace norma::io {

/// The contents of a folder are not those of a whole checkpoint. (A disk that fails to answer is a
/// FileError instead: it says nothing about the contents.)
class DamagedError : public Error {
 public:
  using Error::Error;
};

std::string step_folder_name(std::uint64_t step);                    // step-00000100
std::optional<std::uint64_t> step_of(std::string_view folder_name);  // nothing for other names

/// One checkpoint on its way. Destroyed before finish() has returned, it removes what it wrote.
class Commit {
 public:
  /// Makes parent/step-N.tmp.<pid>.<k>; `parent` must exist.
  Commit(FileSystem& system, std::string parent, std::uint64_t step);
  Commit(const Commit&) = delete;
  Commit& operator=(const Commit&) = delete;

  /// Creates a file, lets `produce` write it, and makes it durable.
  void write(const std::string& name, const std::function<void(ByteSink&)>& produce);

  /// Writes MANIFEST.json, makes the folder durable, gives it its name and makes that durable.
  /// Returns the folder. From here on, and not before, the checkpoint survives a loss of power.
  /// An equal checkpoint of the step that is there already is kept, a damaged one is moved aside
  /// (step-N.del), and another whole one is an error.
  std::string finish(std::map<std::string, std::string> facts);

 private:
  void settle_with_existing(const std::string& folder);

  FileSystem& system_;
  std::string parent_;
  TemporaryFolder temporary_;
  Manifest manifest_;
};

enum class Depth : std::uint8_t {
  sizes,    // the manifest is sound and the files have their sizes
  digests,  // and every byte is read and agrees with its digest
};

/// The manifest of a whole checkpoint; throws a DamagedError that says what is wrong.
Manifest verify(FileSystem& system, const std::string& folder, Depth depth = Depth::digests);

/// Renames parent/name to the first free parent/name.del.<k> and makes that durable; returns it.
std::string move_aside(FileSystem& system, const std::string& parent, std::string_view name);

}  // namespace norma::io
