// Which windows of the data make a batch. Everything is a pure function of seed and step, so that
// resuming is free and does not depend on threads or ranks.
#pragma once

#include <cstdint>

#include "norma/data/token_data.h"
#include "norma/tensor/tensor.h"

namespace norma {

/// Windows of `length` tokens and their successors, drawn without repetition within an epoch: an
/// epoch walks through all windows of the data in a random order, and every epoch starts at a
/// random place, so that windows begin elsewhere each time.
class TrainWindows {
 public:
  /// Throws when the data hold not even one window.
  TrainWindows(TokenView tokens, Index length, std::uint64_t seed);

  Index per_epoch() const { return per_epoch_; }
  /// The first token of window number `sample`, counted from the start of training.
  Index start_of(std::uint64_t sample) const;
  /// Fills ids (B, T) with windows first_sample.. and targets (B·T) with what follows each token.
  void fill(std::uint64_t first_sample, const Tensor& ids, const Tensor& targets) const;

 private:
  TokenView tokens_;
  Index length_;
  std::uint64_t seed_;
  Index per_epoch_;
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
  Index start_of(Index window) const;
  TokenView tokens_;
  Index length_;
  Index whole_;  // windows in the split
  Index count_;  // windows looked at
  Index target_count_ = 0;
};

/// A permutation of 0 .. size − 1 as a function: where `at` goes. Different for every key.
std::uint64_t permuted(std::uint64_t at, std::uint64_t size, std::uint64_t seed, std::uint64_t key);

}  // namespace norma
