#include "norma/text/merger.h"

#include <algorithm>
#include <tuple>

#include "norma/base/error.h"
#include "norma/base/text.h"

namespace norma::text {

void Merger::merge_into(std::string_view word, std::vector<Id>& ids) {
  if (word.size() <= kShortWord) {
    merge_short(word, ids);
  } else {
    merge_long(word, ids);
  }
}

void Merger::merge_short(std::string_view word, std::vector<Id>& ids) {
  struct Piece {
    Id id;
    PairTable::Found next;  // with the piece behind it
  };
  std::array<Piece, kShortWord> pieces;
  std::size_t count = word.size();
  for (std::size_t i = 0; i < count; ++i) {
    pieces[i].id = byte_ids_[static_cast<std::uint8_t>(word[i])];
  }
  const auto look = [&](std::size_t i) {
    pieces[i].next =
        i + 1 < count ? pairs_.find(pieces[i].id, pieces[i + 1].id) : PairTable::Found{};
  };
  for (std::size_t i = 0; i < count; ++i) look(i);
  while (true) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < count; ++i) {
      if (pieces[i].next.rank < pieces[best].next.rank) best = i;
    }
    if (pieces[best].next.rank == PairTable::kNone) break;
    pieces[best].id = pieces[best].next.result;
    std::copy(pieces.begin() + static_cast<std::ptrdiff_t>(best) + 2,
              pieces.begin() + static_cast<std::ptrdiff_t>(count),
              pieces.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    --count;
    look(best);
    if (best > 0) look(best - 1);
  }
  for (std::size_t i = 0; i < count; ++i) ids.push_back(pieces[i].id);
}

namespace {

/// The best candidate is the greatest for the heap.
struct Worse {
  template <class C>
  bool operator()(const C& a, const C& b) const {
    return std::tie(a.rank, a.at) > std::tie(b.rank, b.at);
  }
};

}  // namespace

void Merger::consider(std::int32_t at) {
  const Node& node = nodes_[static_cast<std::size_t>(at)];
  if (node.after < 0) return;
  const Id right = nodes_[static_cast<std::size_t>(node.after)].id;
  const PairTable::Found found = pairs_.find(node.id, right);
  if (found.rank == PairTable::kNone) return;
  heap_.push_back({found.rank, at, node.id, right, found.result});
  std::push_heap(heap_.begin(), heap_.end(), Worse{});
}

void Merger::merge_long(std::string_view word, std::vector<Id>& ids) {
  constexpr Id kGone = -1;
  constexpr std::size_t kLongest = std::size_t{1} << 30;
  if (word.size() > kLongest) {
    throw Error(say("a word of ", word.size(), " bytes without a space; at most ", kLongest, "."));
  }
  const auto count = static_cast<std::int32_t>(word.size());
  nodes_.clear();
  heap_.clear();
  for (std::int32_t i = 0; i < count; ++i) {
    const Id id = byte_ids_[static_cast<std::uint8_t>(word[static_cast<std::size_t>(i)])];
    nodes_.push_back({id, i - 1, i + 1 < count ? i + 1 : -1});
  }
  for (std::int32_t i = 0; i < count; ++i) consider(i);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), Worse{});
    const Candidate best = heap_.back();
    heap_.pop_back();
    Node& left = nodes_[static_cast<std::size_t>(best.at)];
    // One of the two may have been merged with another since.
    if (left.id != best.left || left.after < 0) continue;
    Node& right = nodes_[static_cast<std::size_t>(left.after)];
    if (right.id != best.right) continue;
    left.id = best.result;
    left.after = right.after;
    right.id = kGone;
    if (left.after >= 0) nodes_[static_cast<std::size_t>(left.after)].before = best.at;
    if (left.before >= 0) consider(left.before);
    consider(best.at);
  }
  for (std::int32_t i = 0; i >= 0; i = nodes_[static_cast<std::size_t>(i)].after) {
    ids.push_back(nodes_[static_cast<std::size_t>(i)].id);
  }
}

}  // namespace norma::text
