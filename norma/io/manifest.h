// MANIFEST.json: the last file of a checkpoint to be written, and what makes it one. It lists every
// other file with its size and digest, and ends with a digest of its own text.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace norma::io {

inline constexpr std::string_view kManifestName = "MANIFEST.json";

struct ManifestFile {
  std::uint64_t bytes = 0;
  std::string digest;  // Digest::text()
  friend bool operator==(const ManifestFile&, const ManifestFile&) = default;
};

struct Manifest {
  std::uint64_t step = 0;
  std::map<std::string, std::string> facts;  // the writer's: hash of the recipe, number of ranks, …
  std::map<std::string, ManifestFile> files;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

std::string text_of(const Manifest& manifest);
/// Throws an Error that begins with `path` for any text that text_of did not write.
Manifest parse_manifest(std::string_view path, std::string_view text);

}  // namespace norma::io
