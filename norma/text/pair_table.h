// Which neighbours become one: a flat hash table of pairs of ids, made once and then only read.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "norma/text/bpe_model.h"

namespace norma::text {

class PairTable {
 public:
  using Rank = std::uint32_t;
  static constexpr Rank kNone = std::numeric_limits<Rank>::max();

  struct Found {
    Rank rank = kNone;  // kNone: the two stay apart
    Id result = 0;
  };

  explicit PairTable(const std::vector<Merge>& merges)
      : slots_(std::bit_ceil(2 * merges.size() + 1)), shift_(64 - std::countr_zero(slots_.size())) {
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
      const std::uint64_t key = key_of(merges[rank].left, merges[rank].right);
      std::size_t at = home_of(key);
      while (slots_[at].found.rank != kNone) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = {key, {static_cast<Rank>(rank), merges[rank].result}};
    }
  }

  Found find(Id left, Id right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t at = home_of(key);; at = (at + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[at];
      if (slot.key == key || slot.found.rank == kNone) return slot.found;
    }
  }

 private:
  struct Slot {
    std::uint64_t key = std::numeric_limits<std::uint64_t>::max();  // no pair: ids are not negative
    Found found;
  };
  static std::uint64_t key_of(Id left, Id right) {
    return (static_cast<std::uint64_t>(left) << 32) | static_cast<std::uint32_t>(right);
  }
  /// The top bits of a product with an odd constant; a table of one slot has no bits to take.
  std::size_t home_of(std::uint64_t key) const {
    return shift_ == 64 ? 0 : (key * 0x9E3779B97F4A7C15ULL) >> shift_;
  }

  std::vector<Slot> slots_;  // at most half full
  int shift_;
};

}  // namespace norma::text
