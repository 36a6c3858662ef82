// Byte-pair encodings as files: GPT-2's vocab.bpe alone, vocab.json with merges.txt, and Hugging
// Face's tokenizer.json. These pages take and give the contents; docs/formats/tokenizer.md has the
// formats and every check. A file that fails one gets an Error that begins with its name.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "norma/text/bpe_model.h"

namespace norma::text {

/// What Hugging Face, our data sets and our runs call a tokenizer's file.
inline constexpr const char* kTokenizerFile = "tokenizer.json";
/// Larger ones are refused before they are read.
inline constexpr std::size_t kLargestTokenizerFile = std::size_t{256} << 20;

/// Merges alone. The bytes have the ids 0 to 255, merge i makes the id 256 + i, and <|endoftext|>
/// comes last. A merge may join only what earlier ones made.
BpeModel read_merges(std::string_view file, std::string_view text);

struct NamedText {
  std::string_view file;
  std::string_view text;
};
/// Entries of vocab.json that are neither a byte nor made by a merge are special tokens.
BpeModel read_vocab_and_merges(const NamedText& vocab, const NamedText& merges);

BpeModel read_tokenizer_json(std::string_view file, std::string_view text);

std::string tokenizer_json(const BpeModel& model);
std::string vocab_json(const BpeModel& model);
std::string merges_txt(const BpeModel& model);

}  // namespace norma::text
