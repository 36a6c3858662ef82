// Named sets of files that come from packages: what is in them, and that it is what we know.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "norma/fetch/npm.h"
#include "norma/io/file_system.h"

namespace norma::fetch {

/// A file of a set. Its digest is known beforehand, so a registry cannot slip in another.
struct SetFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string sha256;
};

/// A package and those of its members that a set is made of.
struct SetPackage {
  std::string name;    // with its version
  std::string prefix;  // members wanted: prefix*suffix
  std::string suffix;
};

struct Set {
  std::string name;
  std::string what;
  std::string licence;
  std::string otherwise;  // what to do when no registry answers, as the end of a sentence
  std::vector<SetPackage> packages;
  std::vector<SetFile> files;
  /// The contents of the files, in their order, from the members of the packages, in theirs.
  std::function<std::vector<std::string>(const std::vector<Members>&)> make;
};

const std::vector<Set>& known_sets();
/// A RequestError that lists the sets when there is none of that name.
const Set& known_set(const std::string& name);

struct GetOptions {
  std::string to{};    // the set's folder lies in this one; empty: the user's cache folder
  bool force = false;  // fetch it although it is there
  NpmOptions npm{};
  std::function<void(const std::string&)> tell{};  // what is being done, for a person who waits
};

struct GotSet {
  std::string folder;
  bool was_there = false;
};

/// Makes sure that TO/NAME/ holds the files of the set, each of them checked; those that are absent
/// or damaged are fetched. A file appears whole or not at all; other files there are left alone.
/// One process at a time works there.
GotSet get_set(io::FileSystem& system, const Set& set, const GetOptions& options);

/// The file that the demo trains on, fetched when it is not in the cache folder yet.
std::string demo_corpus_path(io::FileSystem& system, const GetOptions& options);

}  // namespace norma::fetch
