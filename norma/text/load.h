// Tokenizers by name or by file.
#pragma once

#include <memory>
#include <string>

#include "norma/text/tokenizer.h"

namespace norma::text {

/// byte   256 ids
/// gpt2   the published one, from gpt2_vocabulary_path()
/// PATH   a tokenizer.json; a vocab.json or encoder.json, with merges.txt or vocab.bpe beside it;
///        a file of merges alone; or a folder with one of these
/// An Error for a file that is absent or damaged.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name);

/// $NORMA_GPT2_VOCAB, or norma/gpt2/vocab.bpe in the user's cache folder.
std::string gpt2_vocabulary_path();

}  // namespace norma::text
