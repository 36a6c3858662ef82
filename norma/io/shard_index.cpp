#include "norma/io/shard_index.h"

#include "norma/base/text.h"
#include "norma/io/safetensors_limits.h"
#include "norma/io/strict_json.h"

namespace norma::io {

ShardIndex read_shard_index(const File& file) {
  const std::string text = file.text(kMaxHeader);
  StrictJson json(file.path(), text);
  ShardIndex index;
  bool mapped = false;
  json.object([&](const std::string& key) {
    if (key == "metadata") {
      // Sums and notes of the writer. The files themselves say how large they are.
      json.object([&](const std::string&) {
        if (json.at_string()) {
          json.string();
        } else {
          json.integer();
        }
      });
    } else if (key == "weight_map") {
      mapped = true;
      json.object([&](const std::string& tensor) {
        std::string shard = json.string();
        if (!is_plain_file_name(shard)) {
          json.refuse(say("the shard ",
                          json_string_start(shard),
                          " is not the name of a file beside the index."));
        }
        index.shard_of.emplace(tensor, std::move(shard));
      });
    } else {
      json.refuse(
          say("unknown key ", json_string_start(key), "; metadata and weight_map are known."));
    }
  });
  json.end();
  if (!mapped) throw Error(say(file.path(), " has no weight_map."));
  return index;
}

void require_shards(std::string_view index_file,
                    const ShardIndex& index,
                    const std::map<std::string, SafetensorsLayout>& shards) {
  std::size_t found = 0;
  for (const auto& [shard, layout] : shards) {
    for (const StoredTensor& tensor : layout.tensors) {
      const auto entry = index.shard_of.find(tensor.name);
      if (entry == index.shard_of.end() || entry->second != shard) {
        throw Error(say(shard,
                        " holds ",
                        json_string(tensor.name),
                        ", which ",
                        index_file,
                        entry == index.shard_of.end() ? " does not name."
                                                      : say(" places in ", entry->second, ".")));
      }
      ++found;
    }
  }
  if (found == index.shard_of.size()) return;
  for (const auto& [tensor, shard] : index.shard_of) {
    const auto layout = shards.find(shard);
    if (layout == shards.end() || layout->second.find(tensor) == nullptr) {
      throw Error(say(
          index_file, " places ", json_string(tensor), " in ", shard, ", which does not hold it."));
    }
  }
}

}  // namespace norma::io
