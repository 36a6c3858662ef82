// dataset.json: what a folder of tokens holds (docs/formats/dataset.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "norma/io/manifest.h"

namespace norma {

inline constexpr std::string_view kDatasetName = "dataset.json";
inline constexpr std::string_view kTrainName = "train.bin";
inline constexpr std::string_view kValName = "val.bin";

struct SplitInfo {
  std::uint64_t tokens = 0;
  std::uint64_t documents = 0;   // 0 in val: it is the end of the last document of train
  std::uint64_t text_bytes = 0;  // what the tokens decode to; end-of-text tokens count nothing
  io::ManifestFile file;
  friend bool operator==(const SplitInfo&, const SplitInfo&) = default;
};

struct DatasetInfo {
  std::string tokenizer;  // its name
  std::string fingerprint;
  std::uint64_t vocab = 0;
  io::ManifestFile tokenizer_file;
  std::uint64_t token_bytes = 2;
  SplitInfo train;
  SplitInfo val;
  std::uint64_t seed = 0;
  std::string val_fraction;  // as it was asked for
  std::string licence;
  std::vector<std::string> inputs;
};

std::string text_of(const DatasetInfo& info);
/// Throws an Error that begins with `path` for any text that text_of did not write, and for numbers
/// that cannot belong together.
DatasetInfo parse_dataset_info(std::string_view path, std::string_view text);

}  // namespace norma
