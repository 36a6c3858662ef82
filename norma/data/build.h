// Texts become a folder of tokens (docs/formats/dataset.md).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "norma/data/dataset_info.h"
#include "norma/io/file_system.h"
#include "norma/text/tokenizer.h"

namespace norma {

struct BuildSpec {
  std::vector<std::string> inputs;  // files, folders, "-" (norma/data/inputs.h)
  std::string out;                  // a folder that is not there yet
  double val_fraction = 0.1;
  std::uint64_t seed = 1;
  std::string separator = "<|endoftext|>";  // a line that ends a document; empty: none does
  std::string field = "text";               // of a line of JSONL
  bool stdin_is_jsonl = false;
  std::string licence;
};

struct BuildProgress {
  std::uint64_t read = 0;              // bytes of the inputs, as they lie on the disk
  std::optional<std::uint64_t> total;  // nothing when a pipe is among them
  std::uint64_t text_bytes = 0;
  std::uint64_t tokens = 0;
};

struct BuildResult {
  bool stopped = false;  // by a signal; then nothing was left behind
  DatasetInfo info;
  std::uint64_t files = 0;
  std::uint64_t skipped = 0;          // files of folders that are no text by their name
  std::uint64_t empty = 0;            // documents without a byte
  std::vector<std::string> warnings;  // sentences
};

/// Encodes every document, splits by document, and writes the folder whole or not at all. After
/// each document comes the tokenizer's end-of-text token, or a line feed where it has none. Memory
/// does not grow with the inputs. The ids depend on inputs, tokenizer and spec alone, not on
/// threads.
///
/// Where no document fell to validation (one alone never does), the last val_fraction of the tokens
/// becomes the validation split.
BuildResult build_dataset(const BuildSpec& spec,
                          const text::Tokenizer& tokenizer,
                          const std::function<void(const BuildProgress&)>& onlooker,
                          io::FileSystem& disk = io::real_file_system());

}  // namespace norma
