// Gradient sums of a gain that all heads of a row share.
#pragma once

#include <algorithm>

#include "norma/base/types.h"

namespace norma::kernels {

/// Collects some heads before they join the sum over rows. Added one by one, their rounding errors
/// would grow with rows · heads; wide rows of narrow heads then miss the limit for gradients.
class HeadSums {
 public:
  /// `sums` is where everything ends up; null: nothing is collected. `shared` is false where every
  /// head has sums of its own, which need no help.
  HeadSums(float* sums, Index width, bool shared)
      : sums_(sums), width_(width), used_(sums != nullptr && shared && width <= kMostWidth) {
    if (used_) std::fill(heads_, heads_ + width_, 0.0f);
  }
  /// Where the next head adds its part; `at` is its first entry in `sums`.
  float* next(Index at) {
    if (!used_) return sums_ == nullptr ? nullptr : sums_ + at;
    if (pending_ == kHeads) flush();
    ++pending_;
    return heads_;
  }
  /// Ends the collection.
  void flush() {
    if (!used_) return;
    for (Index c = 0; c < width_; ++c) sums_[c] += heads_[c];
    std::fill(heads_, heads_ + width_, 0.0f);
    pending_ = 0;
  }

 private:
  static constexpr Index kHeads = 64;
  static constexpr Index kMostWidth = 256;  // wider heads are few

  float heads_[kMostWidth];
  float* sums_;
  Index width_;
  Index pending_ = 0;
  bool used_;
};

}  // namespace norma::kernels
