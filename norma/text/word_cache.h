// The ids of words met before. Text repeats its words, so most are looked up and not merged anew.
// A word has one place; a newcomer takes it. The cache starts small, for a prompt or a line, and
// grows once when much text has come.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "norma/text/tokenizer.h"

namespace norma::text {

class WordCache {
 public:
  static constexpr std::size_t kLongestWord = 15;  // bytes; with the length it fills two registers
  static constexpr std::size_t kMostIds = 4;

  /// A word of 1 to kLongestWord bytes, as two numbers.
  struct Key {
    std::uint64_t low = 0;
    std::uint64_t high = 0;  // its top byte is the length, so no word is all zeros
    friend bool operator==(const Key&, const Key&) = default;
  };

  /// A half cache line: key and ids are fetched together.
  struct alignas(32) Entry {
    Key key;
    std::array<Id, kMostIds> ids{};  // -1 behind the last
  };

  WordCache() : entries_(std::size_t{1} << kFewBits) {}

  /// Says that so much text is to come.
  void expect(std::size_t bytes) {
    seen_ += bytes;
    if (seen_ < kMuchText || bits_ == kBits) return;
    bits_ = kBits;
    entries_.assign(std::size_t{1} << kBits, Entry{});
  }

  /// The word at `at`. Whole registers are loaded where the text is long enough for it.
  static Key key_of(std::string_view text, std::size_t at, std::size_t bytes) {
    std::array<std::uint64_t, 2> words{};
    if (text.size() - at >= sizeof words) {
      std::memcpy(words.data(), text.data() + at, sizeof words);
      if (bytes < 8) {
        words = {words[0] & ((std::uint64_t{1} << (8 * bytes)) - 1), 0};
      } else {
        words[1] &= (std::uint64_t{1} << (8 * (bytes - 8))) - 1;
      }
    } else {
      std::memcpy(words.data(), text.data() + at, bytes);
    }
    return {words[0], words[1] | (static_cast<std::uint64_t>(bytes) << 56)};
  }

  Entry& place_of(const Key& key) {
    const std::uint64_t mixed = (key.low ^ (key.high * 0xFF51AFD7ED558CCDULL)) * kOdd;
    return entries_[(mixed ^ (mixed >> 29)) * kOdd >> (64 - bits_)];
  }

 private:
  // 4 MB. English text with GPT-2's vocabulary on one EPYC core: 76, 89, 104, 118 and 126 MB/s for
  // 14 to 18 bits; the last doubling is not worth its memory.
  static constexpr int kBits = 17;
  static constexpr int kFewBits = 8;
  static constexpr std::size_t kMuchText = std::size_t{64} << 10;
  static constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15ULL;

  int bits_ = kFewBits;
  std::size_t seen_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace norma::text
