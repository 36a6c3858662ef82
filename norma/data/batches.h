// Which windows of the data make a batch. Everything is a pure function of seed and step, so that
// resuming is free and does not depend on threads or ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "norma/data/token_view.h"
#include "norma/tensor/tensor.h"

namespace norma {

/// Windows counted shard after shard: which shard holds a window, and the how manieth of that shard
/// it is, in O(log shards).
class WindowTable {
 public:
  struct Place {
    std::size_t shard = 0;
    Index window = 0;
  };
  WindowTable() = default;
  explicit WindowTable(const std::vector<Index>& windows_by_shard);
  Index total() const { return ends_.empty() ? 0 : ends_.back(); }
  Place find(Index window) const;  // below total()

 private:
  std::vector<Index> ends_;
};

/// Windows of `length` tokens and their successors, drawn without repetition within an epoch: an
/// epoch walks through all windows of all shards in a random order, and in every epoch the windows
/// of a shard start at another place. A shard of less than 2·length tokens has no window.
class TrainWindows {
 public:
  /// Throws when the data hold not even one window.
  TrainWindows(TokenView tokens, Index length, std::uint64_t seed);

  Index per_epoch() const { return table_.total(); }
  struct Start {
    std::size_t shard = 0;
    Index token = 0;  // of that shard
  };
  /// Where window number `sample` begins, counted from the start of training.
  Start start_of(std::uint64_t sample) const;
  /// Fills ids (B, T) with windows first_sample.. and targets (B·T) with what follows each token.
  void fill(std::uint64_t first_sample, const Tensor& ids, const Tensor& targets) const;

 private:
  TokenView tokens_;
  Index length_;
  std::uint64_t seed_;
  WindowTable table_;
};

/// The validation split, window after window; with a limit, as many windows spread evenly over it.
class ValWindows {
 public:
  /// `most_tokens` 0: all of it.
  ValWindows(TokenView tokens, Index length, Index most_tokens);

  Index count() const { return count_; }
  Index tokens() const { return target_count_; }  // targets in all windows
  /// Fills rows with windows first.. ; rows beyond the last window, and targets beyond the end of
  /// the data, are ignored (−1).
  void fill(Index first, const Tensor& ids, const Tensor& targets) const;

 private:
  WindowTable::Place place_of(Index window) const;
  TokenView tokens_;
  Index length_;
  WindowTable table_;  // all windows of the split
  Index count_ = 0;    // windows looked at
  Index target_count_ = 0;
};

/// A permutation of 0 .. size − 1 as a function: where `at` goes. Different for every key.
std::uint64_t permuted(std::uint64_t at, std::uint64_t size, std::uint64_t seed, std::uint64_t key);

}  // namespace norma
