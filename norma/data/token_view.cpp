#include "norma/data/token_view.h"

#include <algorithm>
#include <cstring>

namespace norma {

std::int32_t TokenShard::operator[](Index at) const {
  const std::byte* where = data + at * bytes_per_token;
  if (bytes_per_token == 1) return std::to_integer<std::int32_t>(*where);
  if (bytes_per_token == 2) {
    std::uint16_t id = 0;
    std::memcpy(&id, where, sizeof id);
    return id;
  }
  std::uint32_t id = 0;
  std::memcpy(&id, where, sizeof id);
  return static_cast<std::int32_t>(id);
}

TokenView::TokenView(const std::byte* data, Index count_given, int bytes_per_token)
    : TokenView(std::vector<TokenShard>{{data, count_given, bytes_per_token}}) {}

TokenView::TokenView(std::vector<TokenShard> given) : shards(std::move(given)) {
  std::erase_if(shards, [](const TokenShard& shard) { return shard.count == 0; });
  for (const TokenShard& shard : shards) count += shard.count;
}

std::int32_t TokenView::operator[](Index at) const {
  std::size_t shard = 0;
  while (at >= shards[shard].count) at -= shards[shard++].count;
  return shards[shard][at];
}

TokenView TokenView::part(Index begin, Index length) const {
  std::vector<TokenShard> parts;
  for (const TokenShard& shard : shards) {
    const Index from = std::min(begin, shard.count);
    const Index taken = std::min(length, shard.count - from);
    parts.push_back(shard.part(from, taken));
    begin -= from;
    length -= taken;
  }
  return TokenView(std::move(parts));
}

}  // namespace norma
