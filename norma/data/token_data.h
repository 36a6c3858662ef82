// Tokens to train on, wherever they come from: two long lists of ids and what they mean.
#pragma once

#include <memory>
#include <string>

#include "norma/data/token_view.h"

namespace norma {

struct TokenData {
  TokenView train;
  TokenView val;
  Index vocab = 0;              // every id is below
  double bytes_per_token = 1;   // of the text behind the validation tokens; 0: not known
  std::string description;      // "shakespeare.txt, bytes"
  std::string tokenizer;        // the contents of its tokenizer.json; empty: not known
  std::string digest;           // of all ids and the tokenizer: the same data have the same
  std::size_t held_bytes = 0;   // memory the ids take; mapped files take none
  std::shared_ptr<void> owner;  // of the memory that the views look at
};

/// Tokens drawn evenly from a vocabulary, all for training: speed does not depend on what they say.
TokenData random_tokens(Index vocab, Index count);

}  // namespace norma
