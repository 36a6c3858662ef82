// One split of a data set while it is written.
#pragma once

#include <span>

#include "norma/data/dataset_info.h"
#include "norma/io/hashed_file.h"
#include "norma/text/tokenizer.h"

namespace norma {

class SplitFile {
 public:
  SplitFile(io::FileSystem& disk, const std::string& path, std::uint64_t token_bytes)
      : file_(disk, path), token_bytes_(token_bytes) {}

  /// `text_bytes`: what the ids decode to.
  void write(std::span<const text::Id> ids, std::uint64_t text_bytes);
  void end_document() { ++info_.documents; }
  const SplitInfo& info() const { return info_; }
  SplitInfo finish();

 private:
  io::HashedFile file_;
  std::uint64_t token_bytes_;
  SplitInfo info_;
  std::vector<std::byte> bytes_;
};

/// Moves the last `share` of the tokens of a finished `train` file into a new file `val`.
/// `end_of_text`: an id that decodes to nothing; −1: there is none.
struct TailSplit {
  std::string train;
  std::string val;
  double share = 0;
  std::uint64_t token_bytes = 2;
  text::Id end_of_text = -1;
};
void split_tail(io::FileSystem& disk,
                const TailSplit& request,
                const text::Tokenizer& tokenizer,
                SplitInfo& train,
                SplitInfo& val);

}  // namespace norma
