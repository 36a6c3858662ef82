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

WindowTable::WindowTable(const std::vector<Index>& windows_by_shard) {
  Index end = 0;
  for (const Index windows : windows_by_shard) ends_.push_back(end += windows);
}

WindowTable::Place WindowTable::find(Index window) const {
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), window);
  return {.shard = static_cast<std::size_t>(end - ends_.begin()),
          .window = window - (end == ends_.begin() ? 0 : *(end - 1))};
}

TrainWindows::TrainWindows(TokenView tokens, Index length, std::uint64_t seed)
    : tokens_(std::move(tokens)), length_(length), seed_(seed) {
  // An epoch may start up to length − 1 tokens late; every window needs one token more, the last
  // target.
  std::vector<Index> windows;
  for (const TokenShard& shard : tokens_.shards) {
    windows.push_back(std::max<Index>(0, (shard.count - length) / length));
  }
  table_ = WindowTable(windows);
  if (table_.total() < 1) {
    throw RequestError(say("the training split has ",
                           tokens_.count,
                           " tokens",
                           tokens_.shards.size() > 1 ? say(" in ", windows.size(), " shards") : "",
                           "; windows of ",
                           length,
                           " need at least ",
                           2 * length,
                           tokens_.shards.size() > 1 ? " in a shard" : "",
                           ": use more data or a shorter model.context."));
  }
}

TrainWindows::Start TrainWindows::start_of(std::uint64_t sample) const {
  const auto windows = static_cast<std::uint64_t>(per_epoch());
  const std::uint64_t epoch = sample / windows;
  const auto late = random_word({seed_, kShiftStream}, epoch) % static_cast<std::uint32_t>(length_);
  const WindowTable::Place place =
      table_.find(static_cast<Index>(permuted(sample % windows, windows, seed_, epoch)));
  return {.shard = place.shard, .token = static_cast<Index>(late) + place.window * length_};
}

void TrainWindows::fill(std::uint64_t first_sample,
                        const Tensor& ids,
                        const Tensor& targets) const {
  const Index rows = ids.shape.rows();
  auto* id = ids.as<std::int32_t>();
  auto* target = targets.as<std::int32_t>();
  for (Index r = 0; r < rows; ++r) {
    const Start start = start_of(first_sample + static_cast<std::uint64_t>(r));
    const TokenShard& shard = tokens_.shards[start.shard];
    for (Index t = 0; t < length_; ++t) {
      *id++ = shard[start.token + t];
      *target++ = shard[start.token + t + 1];
    }
  }
}

ValWindows::ValWindows(TokenView tokens, Index length, Index most_tokens)
    : tokens_(std::move(tokens)), length_(length) {
  std::vector<Index> windows;
  for (const TokenShard& shard : tokens_.shards) {
    windows.push_back((shard.count - 1 + length - 1) / length);
  }
  table_ = WindowTable(windows);
  if (table_.total() < 1) {
    throw RequestError(say("the validation split has ",
                           tokens_.count,
                           " tokens; use more data or a larger data.val_fraction."));
  }
  const Index most = most_tokens == 0 ? table_.total() : std::max<Index>(1, most_tokens / length);
  count_ = std::min(table_.total(), most);
  for (Index window = 0; window < count_; ++window) {
    const WindowTable::Place place = place_of(window);
    target_count_ +=
        std::min(length, tokens_.shards[place.shard].count - 1 - place.window * length);
  }
}

WindowTable::Place ValWindows::place_of(Index window) const {
  return table_.find(window * table_.total() / count_);
}

void ValWindows::fill(Index first, const Tensor& ids, const Tensor& targets) const {
  auto* id = ids.as<std::int32_t>();
  auto* target = targets.as<std::int32_t>();
  for (Index r = 0; r < ids.shape.rows(); ++r) {
    const bool there = first + r < count_;
    const WindowTable::Place place = there ? place_of(first + r) : WindowTable::Place{};
    const TokenShard& shard = tokens_.shards[place.shard];
    const Index start = place.window * length_;
    for (Index t = 0; t < length_; ++t) {
      const bool inside = there && start + t + 1 < shard.count;
      *id++ = inside ? shard[start + t] : 0;
      *target++ = inside ? shard[start + t + 1] : -1;
    }
  }
}

}  // namespace norma
