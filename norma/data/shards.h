// Files of token ids: mapped, measured and read through once before anybody trains on them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "norma/data/token_view.h"
#include "norma/io/mapped_file.h"

namespace norma {

struct ShardFile {
  std::string path;
  std::shared_ptr<io::MappedFile> file;
  TokenShard tokens;   // inside the mapping
  std::string digest;  // of the whole file
  Index largest = -1;  // of its ids; −1: it has none
};

/// Ids and nothing else, little-endian: nanoGPT's files (2 bytes) and our own (2 or 4). An Error
/// for a file that is no regular file, is empty, or does not hold a whole number of ids.
ShardFile open_raw_shard(io::FileSystem& disk, const std::string& path, int bytes_per_token);

/// llm.c's files: 256 32-bit numbers (magic, version, count, zeros), then the ids: 20240520,
/// version 1, 2 bytes an id; or 20240801, version 7, 4 bytes. An Error unless magic, version and
/// the exact size fit.
ShardFile open_llmc_shard(io::FileSystem& disk, const std::string& path);

/// Whether a file begins like one of llm.c's.
bool begins_like_llmc(io::Bytes file);

/// An Error that names the first id which is not below `vocab`, and where it lies.
/// `vocab_name`: "model.vocab", "the vocabulary in meta.json", …
void require_ids_below(const ShardFile& shard, Index vocab, std::string_view vocab_name);

}  // namespace norma
