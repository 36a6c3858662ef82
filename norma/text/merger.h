// Merges the bytes of one word: of all neighbours that a merge joins, the earliest merge goes
// first, of equal ones the leftmost, until none is left. No memory is taken for words of ordinary
// length; a word of n bytes costs n log n at most, so a megabyte without a space is no trap.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "norma/text/pair_table.h"

namespace norma::text {

class Merger {
 public:
  /// Both must outlive the merger. Not for several threads at once.
  Merger(const PairTable& pairs, const std::array<Id, 256>& byte_ids)
      : pairs_(pairs), byte_ids_(byte_ids) {}

  /// Appends the ids of a word.
  void merge_into(std::string_view word, std::vector<Id>& ids);

 private:
  // Up to here scanning for the best pair beats keeping a heap.
  static constexpr std::size_t kShortWord = 96;

  struct Node {  // of a chain of pieces in the order of the word
    Id id;
    std::int32_t before;
    std::int32_t after;
  };
  struct Candidate {
    PairTable::Rank rank;
    std::int32_t at;  // the left node
    Id left;
    Id right;
    Id result;
  };

  void merge_short(std::string_view word, std::vector<Id>& ids);
  void merge_long(std::string_view word, std::vector<Id>& ids);
  void consider(std::int32_t at);

  const PairTable& pairs_;
  const std::array<Id, 256>& byte_ids_;
  std::vector<Node> nodes_;
  std::vector<Candidate> heap_;
};

}  // namespace norma::text
