#include "norma/data/batches.h"

#include <algorithm>

#include "norma/base/error.h"
#include "norma/base/rng.h"
#include "norma/base/text.h"

namespace norma {

namespace {

// Streams of the run's seed; models draw from names, dropout from steps.
constexpr std::uint64_t kShiftStream = 0x5EED0001;
constexpr std::uint64_t kOrderStream = 0x5EED0002;

}  // namespace

std::uint64_t permuted(std::uint64_t at,
                       std::uint64_t size,
                       std::uint64_t seed,
                       std::uint64_t key) {
  if (size <= 1) return 0;
  // A Feistel network permutes the smallest even power of two that holds `size`; values beyond are
  // sent through again until they fall inside.
  int half = 1;
  while ((std::uint64_t{1} << (2 * half)) < size) ++half;
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  std::uint64_t value = at;
  do {
    std::uint64_t left = value >> half;
    std::uint64_t right = value & mask;
    for (std::uint64_t round = 0; round < 6; ++round) {
      const RandomKey stream{seed + round * 0x9E3779B97F4A7C15ULL, kOrderStream + (key << 32)};
      const std::uint64_t mixed = random_block(stream, right)[0];
      const std::uint64_t next = left ^ (mixed & mask);
      left = right;
      right = next;
    }
    value = (left << half) | right;
  } while (value >= size);
  return value;
}

TrainWindows::TrainWindows(TokenView tokens, Index length, std::uint64_t seed)
    : tokens_(tokens), length_(length), seed_(seed) {
  // An epoch may start up to length − 1 tokens late; every window needs one token more, the last
  // target.
  per_epoch_ = (tokens.count - length) / length;
  if (per_epoch_ < 1) {
    throw RequestError(say("the training split has ",
                           tokens.count,
                           " tokens; windows of ",
                           length,
                           " need at least ",
                           2 * length,
                           ": use more data or a shorter model.context."));
  }
}

Index TrainWindows::start_of(std::uint64_t sample) const {
  const auto windows = static_cast<std::uint64_t>(per_epoch_);
  const std::uint64_t epoch = sample / windows;
  const auto late = random_word({seed_, kShiftStream}, epoch) % static_cast<std::uint32_t>(length_);
  const std::uint64_t window = permuted(sample % windows, windows, seed_, epoch);
  return static_cast<Index>(late) + static_cast<Index>(window) * length_;
}

void TrainWindows::fill(std::uint64_t first_sample,
                        const Tensor& ids,
                        const Tensor& targets) const {
  const Index rows = ids.shape.rows();
  auto* id = ids.as<std::int32_t>();
  auto* target = targets.as<std::int32_t>();
  for (Index r = 0; r < rows; ++r) {
    const Index start = start_of(first_sample + static_cast<std::uint64_t>(r));
    for (Index t = 0; t < length_; ++t) {
      *id++ = tokens_[start + t];
      *target++ = tokens_[start + t + 1];
    }
  }
}

ValWindows::ValWindows(TokenView tokens, Index length, Index most_tokens)
    : tokens_(tokens), length_(length) {
  if (tokens.count < 2) {
    throw RequestError(say("the validation split has ",
                           tokens.count,
                           " tokens; use more data or a larger data.val_fraction."));
  }
  whole_ = (tokens.count - 1 + length - 1) / length;
  const Index most = most_tokens == 0 ? whole_ : std::max<Index>(1, most_tokens / length);
  count_ = std::min(whole_, most);
  for (Index window = 0; window < count_; ++window) {
    target_count_ += std::min(length, tokens.count - 1 - start_of(window));
  }
}

Index ValWindows::start_of(Index window) const { return window * whole_ / count_ * length_; }

void ValWindows::fill(Index first, const Tensor& ids, const Tensor& targets) const {
  auto* id = ids.as<std::int32_t>();
  auto* target = targets.as<std::int32_t>();
  for (Index r = 0; r < ids.shape.rows(); ++r) {
    const bool there = first + r < count_;
    const Index start = there ? start_of(first + r) : 0;
    for (Index t = 0; t < length_; ++t) {
      const bool inside = there && start + t + 1 < tokens_.count;
      *id++ = inside ? tokens_[start + t] : 0;
      *target++ = inside ? tokens_[start + t + 1] : -1;
    }
  }
}

}  // namespace norma
