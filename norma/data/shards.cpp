#include "norma/data/shards.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/io/digest.h"

namespace norma {

namespace {

constexpr std::size_t kHeaderBytes = 1024;
constexpr std::size_t kPiece = 1 << 20;  // digested and searched while it is in cache

struct Kind {
  std::int32_t magic;
  std::int32_t version;
  int bytes_per_token;
};
constexpr std::array<Kind, 2> kKinds = {{{20240520, 1, 2}, {20240801, 7, 4}}};
constexpr std::int32_t kEvaluationMagic = 20240522;

std::int32_t word_at(io::Bytes bytes, std::size_t index) {
  std::int32_t word = 0;
  std::memcpy(&word, bytes.data() + index * sizeof word, sizeof word);
  return word;
}

const Kind* kind_of(std::int32_t magic) {
  for (const Kind& kind : kKinds) {
    if (kind.magic == magic) return &kind;
  }
  return nullptr;
}

template <class Id>
Index largest_of(const std::byte* data, Index count) {
  Id largest = 0;
#pragma omp simd reduction(max : largest)
  for (Index i = 0; i < count; ++i) {
    Id id = 0;
    std::memcpy(&id, data + i * static_cast<Index>(sizeof id), sizeof id);
    largest = std::max(largest, id);
  }
  return static_cast<Index>(largest);
}

Index largest_of(const TokenShard& tokens) {
  if (tokens.count == 0) return -1;
  return tokens.bytes_per_token == 2 ? largest_of<std::uint16_t>(tokens.data, tokens.count)
                                     : largest_of<std::uint32_t>(tokens.data, tokens.count);
}

/// One pass over the file for its digest and its largest id.
void look_through(ShardFile& shard) {
  io::Hasher hasher;
  const io::Bytes all = shard.file->bytes();
  const auto before = static_cast<std::size_t>(shard.tokens.data - all.data());
  hasher.add(all.first(before));
  const Index piece = static_cast<Index>(kPiece) / shard.tokens.bytes_per_token;
  for (Index at = 0; at < shard.tokens.count; at += piece) {
    const TokenShard part = shard.tokens.part(at, std::min(piece, shard.tokens.count - at));
    hasher.add({part.data, static_cast<std::size_t>(part.count * part.bytes_per_token)});
    shard.largest = std::max(shard.largest, largest_of(part));
  }
  shard.digest = hasher.digest().text();
}

ShardFile map_shard(io::FileSystem& disk, const std::string& path) {
  ShardFile shard;
  shard.path = path;
  shard.file = std::make_shared<io::MappedFile>(disk, path);
  if (shard.file->bytes().empty()) throw Error(say(path, " is empty; token ids were expected."));
  return shard;
}

}  // namespace

bool begins_like_llmc(io::Bytes file) {
  return file.size() >= sizeof(std::int32_t) && kind_of(word_at(file, 0)) != nullptr;
}

ShardFile open_raw_shard(io::FileSystem& disk, const std::string& path, int bytes_per_token) {
  ShardFile shard = map_shard(disk, path);
  const io::Bytes bytes = shard.file->bytes();
  const auto width = static_cast<std::size_t>(bytes_per_token);
  if (bytes.size() % width != 0) {
    throw Error(say(path,
                    " has ",
                    bytes.size(),
                    " bytes, which is no whole number of ",
                    width,
                    "-byte ids; it was cut off, or is no file of ids."));
  }
  shard.tokens = {bytes.data(), static_cast<Index>(bytes.size() / width), bytes_per_token};
  look_through(shard);
  return shard;
}

ShardFile open_llmc_shard(io::FileSystem& disk, const std::string& path) {
  ShardFile shard = map_shard(disk, path);
  const io::Bytes bytes = shard.file->bytes();
  if (bytes.size() < kHeaderBytes) {
    throw Error(say(path,
                    " has ",
                    bytes.size(),
                    " bytes; the header of an llm.c shard alone has ",
                    kHeaderBytes,
                    "."));
  }
  const std::int32_t magic = word_at(bytes, 0);
  const Kind* kind = kind_of(magic);
  if (kind == nullptr) {
    throw Error(say(path,
                    " begins with the number ",
                    magic,
                    magic == kEvaluationMagic ? ", an evaluation set of llm.c" : "",
                    "; a shard of llm.c begins with ",
                    kKinds[0].magic,
                    " or ",
                    kKinds[1].magic,
                    "."));
  }
  if (word_at(bytes, 1) != kind->version) {
    throw Error(say(path,
                    " has version ",
                    word_at(bytes, 1),
                    " at byte 4; with the magic number ",
                    magic,
                    " only version ",
                    kind->version,
                    " is known."));
  }
  const std::int32_t count = word_at(bytes, 2);
  const std::size_t wanted = kHeaderBytes + static_cast<std::size_t>(std::max(count, 0)) *
                                                static_cast<std::size_t>(kind->bytes_per_token);
  if (count < 1 || bytes.size() != wanted) {
    throw Error(say(path,
                    " has ",
                    bytes.size(),
                    " bytes, but its header at byte 8 counts ",
                    count,
                    " ids",
                    count < 1 ? "." : say(", which would be ", wanted, " bytes."),
                    " It was cut off or changed."));
  }
  shard.tokens = {bytes.data() + kHeaderBytes, count, kind->bytes_per_token};
  look_through(shard);
  return shard;
}

void require_ids_below(const ShardFile& shard, Index vocab, std::string_view vocab_name) {
  if (shard.largest < vocab) return;
  Index at = 0;
  // 4-byte ids beyond 2³¹ read as negative numbers.
  while (shard.tokens[at] >= 0 && shard.tokens[at] < vocab) ++at;
  const auto offset = shard.tokens.data - shard.file->bytes().data();
  throw Error(say(shard.path,
                  ": id number ",
                  at,
                  " (byte ",
                  offset + at * shard.tokens.bytes_per_token,
                  ") is ",
                  static_cast<std::uint32_t>(shard.tokens[at]),
                  ", but ",
                  vocab_name,
                  " = ",
                  vocab,
                  " has the ids 0 to ",
                  vocab - 1,
                  ". Is the file damaged, or was it made with another tokenizer?"));
}

}  // namespace norma
