// Token ids where they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "norma/base/types.h"

namespace norma {

/// Ids side by side as 1-, 2- or 4-byte numbers: a file, or a part of one.
struct TokenShard {
  const std::byte* data = nullptr;
  Index count = 0;
  int bytes_per_token = 1;

  std::int32_t operator[](Index at) const;
  TokenShard part(Index begin, Index length) const {
    return {data + begin * bytes_per_token, length, bytes_per_token};
  }
};

/// The ids of a split, in one or several shards. What is in one shard is one text; no window
/// crosses from one into the next.
struct TokenView {
  TokenView() = default;
  TokenView(const std::byte* data, Index count, int bytes_per_token);
  explicit TokenView(std::vector<TokenShard> shards);

  std::vector<TokenShard> shards;  // none of them empty
  Index count = 0;                 // ids in all

  /// Ids counted through all shards.
  std::int32_t operator[](Index at) const;
  TokenView part(Index begin, Index length) const;
};

}  // namespace norma
