// Tokens to train on, wherever they come from: two long lists of ids and what they mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "norma/base/types.h"

namespace norma {

/// Token ids that lie somewhere as 1-, 2- or 4-byte numbers.
struct TokenView {
  const std::byte* data = nullptr;
  Index count = 0;
  int bytes_per_token = 1;

  std::int32_t operator[](Index at) const;
  TokenView part(Index begin, Index length) const {
    return {data + begin * bytes_per_token, length, bytes_per_token};
  }
};

struct TokenData {
  TokenView train;
  TokenView val;
  Index vocab = 0;
  double bytes_per_token = 1;   // of the text behind the validation tokens, for bits per byte
  std::string description;      // "shakespeare.txt, bytes"
  std::shared_ptr<void> owner;  // of the memory that the views look at
};

/// A text file as bytes: ids 0 to 255; its last `val_fraction` is the validation split. Throws for
/// a file that is missing, unreadable, or too short to hold both.
TokenData load_bytes(const std::string& path, double val_fraction);

/// Tokens drawn evenly from a vocabulary, all for training: speed does not depend on what they say.
TokenData random_tokens(Index vocab, Index count);

}  // namespace norma
