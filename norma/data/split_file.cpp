#include "norma/data/split_file.h"

#include <algorithm>
#include <cstring>

#include "norma/data/shards.h"

namespace norma {

void SplitFile::write(std::span<const text::Id> ids, std::uint64_t text_bytes) {
  bytes_.resize(ids.size() * token_bytes_);
  std::byte* to = bytes_.data();
  for (const text::Id id : ids) {
    const auto wide = static_cast<std::uint32_t>(id);
    if (token_bytes_ == 2) {
      const auto narrow = static_cast<std::uint16_t>(wide);
      std::memcpy(to, &narrow, sizeof narrow);
    } else {
      std::memcpy(to, &wide, sizeof wide);
    }
    to += token_bytes_;
  }
  file_.write(bytes_);
  info_.tokens += ids.size();
  info_.text_bytes += text_bytes;
}

SplitInfo SplitFile::finish() {
  info_.file = file_.finish();
  return info_;
}

void split_tail(io::FileSystem& disk,
                const TailSplit& request,
                const text::Tokenizer& tokenizer,
                SplitInfo& train,
                SplitInfo& val) {
  const auto moved = static_cast<std::uint64_t>(static_cast<double>(train.tokens) * request.share);
  const std::uint64_t kept = train.tokens - moved;
  SplitFile tail(disk, request.val, request.token_bytes);
  {
    const io::MappedFile whole(disk, request.train);
    const TokenShard tokens{whole.bytes().data(),
                            static_cast<Index>(train.tokens),
                            static_cast<int>(request.token_bytes)};
    constexpr std::uint64_t kPiece = 1 << 20;
    std::vector<text::Id> ids;
    for (std::uint64_t at = kept; at < train.tokens; at += ids.size()) {
      ids.resize(std::min(kPiece, train.tokens - at));
      for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = tokens[static_cast<Index>(at + i)];
      std::vector<text::Id> spoken = ids;
      std::erase(spoken, request.end_of_text);
      tail.write(ids, tokenizer.decode(spoken).size());
    }
  }
  val = tail.finish();
  {
    io::File file(disk, request.train, io::OpenAs::shared);
    file.truncate(kept * request.token_bytes);
    file.sync();
    file.close();
  }
  train.tokens = kept;
  train.text_bytes -= val.text_bytes;
  train.file.bytes = kept * request.token_bytes;
  train.file.digest =
      open_raw_shard(disk, request.train, static_cast<int>(request.token_bytes)).digest;
}

}  // namespace norma
