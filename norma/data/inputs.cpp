#include "norma/data/inputs.h"

#include <array>
#include <cerrno>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/io/file.h"

namespace norma {

namespace {

/// A name without what says that it is compressed.
std::string_view unpacked(std::string_view name) {
  for (const std::string_view ending : {".gz", ".xz", ".zst"}) {
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  }
  return name;
}

bool is_jsonl(std::string_view name) { return unpacked(name).ends_with(".jsonl"); }

bool is_text(std::string_view name) {
  const std::string_view plain = unpacked(name);
  return plain.ends_with(".txt") || plain.ends_with(".md") || is_jsonl(name);
}

void walk(io::FileSystem& disk, const std::string& folder, Inputs& inputs) {
  for (const std::string& name : io::list_folder(disk, folder)) {
    const std::string path = io::join(folder, name);
    if (name.starts_with('.')) {
      ++inputs.skipped;
      continue;
    }
    const io::FileInfo info = io::File(disk, path, io::OpenAs::look).info();
    if (info.kind == io::FileInfo::Kind::folder) {
      try {
        walk(disk, path, inputs);
      } catch (const io::FileError& error) {
        if (error.code() != ELOOP && error.code() != ENOTDIR) throw;  // a link to a folder
        ++inputs.skipped;
      }
    } else if (info.kind == io::FileInfo::Kind::file && is_text(name)) {
      inputs.files.push_back({.path = path, .jsonl = is_jsonl(name), .bytes = info.bytes});
    } else {
      ++inputs.skipped;
    }
  }
}

}  // namespace

Inputs find_inputs(io::FileSystem& disk, const std::vector<std::string>& given) {
  Inputs inputs;
  for (const std::string& path : given) {
    if (path == "-") {
      inputs.files.push_back({.path = path, .bytes = std::nullopt});
      continue;
    }
    io::FileInfo info;
    try {
      info = io::File(disk, path, io::OpenAs::look).info();
    } catch (const io::FileError& error) {
      if (error.code() != ENOENT && error.code() != ENOTDIR) throw;
      throw RequestError(say("there is no file or folder ", path, "."));
    }
    if (info.kind == io::FileInfo::Kind::folder) {
      const std::size_t before = inputs.files.size();
      walk(disk, io::join(path, ""), inputs);
      if (inputs.files.size() == before) {
        throw RequestError(say("the folder ",
                               path,
                               " holds no .txt, .md or .jsonl file (nor one packed as .gz, .xz or "
                               ".zst). Name the files themselves to take them all the same."));
      }
      continue;
    }
    const bool measured = info.kind == io::FileInfo::Kind::file;
    inputs.files.push_back(
        {.path = path,
         .jsonl = is_jsonl(path),
         .bytes = measured ? std::optional<std::uint64_t>(info.bytes) : std::nullopt});
  }
  return inputs;
}

}  // namespace norma
