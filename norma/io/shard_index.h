// The index of a model that is spread over several safetensors files (*.index.json).
#pragma once

#include <map>
#include <string>

#include "norma/io/safetensors.h"

namespace norma::io {

struct ShardIndex {
  std::map<std::string, std::string> shard_of;  // tensor -> file beside the index
};

/// A shard's name must be a plain file name: an index cannot point out of its folder. A tensor that
/// is named twice is refused, so each lies in one shard.
ShardIndex read_shard_index(const File& file);

/// The shards hold exactly what the index says, each tensor in its own shard; `shards` has a layout
/// for every shard that the index names.
void require_shards(std::string_view index_file,
                    const ShardIndex& index,
                    const std::map<std::string, SafetensorsLayout>& shards);

}  // namespace norma::io
