// Which files a data set is made of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "norma/io/file_system.h"

namespace norma {

struct InputFile {
  std::string path;  // "-": standard input
  bool jsonl = false;
  std::optional<std::uint64_t> bytes;  // on the disk; nothing for pipes
};

struct Inputs {
  std::vector<InputFile> files;
  std::uint64_t skipped = 0;  // files in folders that are no text by their name
};

/// Files as they are given; folders walked in name order, subfolders included, for .txt, .md and
/// .jsonl and their .gz, .xz and .zst forms. Names that begin with a dot and links to folders are
/// skipped. A file is JSONL by its name. A RequestError for what is not there.
Inputs find_inputs(io::FileSystem& disk, const std::vector<std::string>& given);

}  // namespace norma
