// What a byte-pair encoding is: the bytes of every id, and which neighbours become one, in order.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "norma/text/tokenizer.h"

namespace norma::text {

inline constexpr std::string_view kEndOfText = "<|endoftext|>";

/// Ids `left` and `right`, side by side in a word, become `result`.
struct Merge {
  Id left = 0;
  Id right = 0;
  Id result = 0;
  friend bool operator==(const Merge&, const Merge&) = default;
};

struct BpeModel {
  std::string name;
  std::vector<std::string> pieces;          // by id: its bytes; of a special token, its text
  std::vector<Merge> merges;                // the earlier one wins
  std::vector<SpecialToken> specials = {};  // in the order of their ids
};

/// What a vocabulary file says, before anything of it is believed.
struct BpeParts {
  std::vector<std::pair<std::string, std::int64_t>> vocabulary;  // spelled piece, id
  std::vector<std::pair<std::string, std::string>> merges;       // spelled pieces
  std::vector<std::pair<std::string, std::int64_t>> specials;    // text, id
};

/// Checks and builds. Refused, with an Error that begins with `file`: ids that are missing, beyond
/// the range or given twice; pieces given twice or spelled with characters that stand for no byte;
/// a byte without an id; merges that come twice or join or make what is not in the vocabulary;
/// special tokens that are empty, given twice, or have white space behind another character (a
/// text could not be cut safely then).
BpeModel build_model(std::string_view file, std::string name, const BpeParts& parts);

/// Bytes alone: a byte is its own id, and nothing merges.
BpeModel byte_model();

/// 16 hexadecimal digits over pieces, merges and special tokens: they tell vocabularies apart, and
/// do not stop a forger.
std::string fingerprint_of(const BpeModel& model);

/// Most ids a vocabulary may have.
inline constexpr std::int64_t kMostIds = std::int64_t{1} << 24;

}  // namespace norma::text
