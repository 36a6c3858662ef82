#include "norma/text/load.h"

#include <cstdlib>
#include <filesystem>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/io/cache_folder.h"
#include "norma/io/file.h"
#include "norma/text/bpe_files.h"
#include "norma/text/bpe_tokenizer.h"
#include "norma/text/byte_tokenizer.h"

namespace norma::text {

namespace {

namespace fs = std::filesystem;

/// Of the published vocab.bpe (SHA-256 1ce16647…), which never changes.
constexpr std::string_view kGpt2Fingerprint = "3ee360b0138da58c";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string read_file(const std::string& path) {
  return io::File(io::real_file_system(), path, io::OpenAs::read).text(kLargestTokenizerFile);
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// The first of some files in a folder; empty when none is there.
fs::path first_of(const fs::path& folder, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (is_there(folder / name)) return folder / name;
  }
  return {};
}

BpeModel load_model(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    const fs::path inside = first_of(path, {kTokenizerFile, "vocab.json", "vocab.bpe"});
    if (inside.empty()) {
      throw Error(say(path.string(), " has no tokenizer.json, vocab.json or vocab.bpe in it."));
    }
    return load_model(inside);
  }
  const std::string file = path.string();
  const std::string contents = read_file(file);
  if (path.filename() == "vocab.json" || path.filename() == "encoder.json") {
    const fs::path merges = first_of(path.parent_path(), {"merges.txt", "vocab.bpe"});
    if (merges.empty()) throw Error(say(file, " needs a merges.txt or vocab.bpe beside it."));
    const std::string merges_contents = read_file(merges.string());
    return read_vocab_and_merges({file, contents}, {merges.string(), merges_contents});
  }
  return path.extension() == ".json" ? read_tokenizer_json(file, contents)
                                     : read_merges(file, contents);
}

std::unique_ptr<Tokenizer> load_gpt2() {
  const std::string path = gpt2_vocabulary_path();
  if (!is_there(path)) {
    throw Error(
        say("the GPT-2 tokenizer is not here: there is no ",
            path,
            ". Get it with: norma data get gpt2, or let $NORMA_GPT2_VOCAB name a vocab.bpe."));
  }
  BpeModel model = read_merges(path, read_file(path));
  model.name = "gpt2";
  auto tokenizer = std::make_unique<BpeTokenizer>(std::move(model));
  if (tokenizer->fingerprint() != kGpt2Fingerprint) {
    throw Error(say(path,
                    " is not the vocab.bpe that was published with GPT-2 (fingerprint ",
                    tokenizer->fingerprint(),
                    ", expected ",
                    kGpt2Fingerprint,
                    "). To use it all the same, give its path as the tokenizer."));
  }
  return tokenizer;
}

}  // namespace

std::string gpt2_vocabulary_path() {
  std::string named = environment("NORMA_GPT2_VOCAB");
  if (!named.empty()) return named;
  return io::join(io::cache_folder(), "gpt2/vocab.bpe");
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name) {
  if (name == "byte") return std::make_unique<ByteTokenizer>();
  if (name == "gpt2") return load_gpt2();
  if (!is_there(name)) {
    throw Error(say("there is no tokenizer ", name, ": it is neither byte nor gpt2 nor a file."));
  }
  return std::make_unique<BpeTokenizer>(load_model(name));
}

}  // namespace norma::text
