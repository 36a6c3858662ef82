// Slow and plain: what a byte-pair encoding means, for comparison. Written apart from the library
// and sharing nothing with it but PCRE2's matching of the published pattern.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "norma/base/rng.h"
#include "norma/text/bpe_model.h"
#include "norma/text/unicode.h"

namespace norma::text {

/// Random numbers of a test.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : key_{seed, 0} {}
  /// 0 … sides - 1.
  std::size_t roll(std::size_t sides) { return random_word(key_, next_++) % sides; }
  template <class List>
  const auto& pick(const List& list) {
    return list[roll(list.size())];
  }

 private:
  RandomKey key_;
  std::uint64_t next_ = 0;
};

/// The length of the UTF-8 character at the start of `bytes`, or 0 when there is none.
inline std::size_t character_length(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const auto tails = [&](std::size_t count, unsigned low, unsigned high) {
    if (bytes.size() < count + 1 || at(1) < low || at(1) > high) return std::size_t{0};
    for (std::size_t i = 2; i <= count; ++i) {
      if (at(i) < 0x80 || at(i) > 0xBF) return std::size_t{0};
    }
    return count + 1;
  };
  const unsigned head = at(0);
  if (head < 0x80) return 1;
  if (head >= 0xC2 && head <= 0xDF) return tails(1, 0x80, 0xBF);
  if (head == 0xE0) return tails(2, 0xA0, 0xBF);
  if (head == 0xED) return tails(2, 0x80, 0x9F);
  if (head >= 0xE1 && head <= 0xEF) return tails(2, 0x80, 0xBF);
  if (head == 0xF0) return tails(3, 0x90, 0xBF);
  if (head >= 0xF1 && head <= 0xF3) return tails(3, 0x80, 0xBF);
  if (head == 0xF4) return tails(3, 0x80, 0x8F);
  return 0;
}

/// The words of any bytes: every byte that is no UTF-8 is shown to PCRE2 as U+E000, a character
/// for private use, which is neither letter nor number nor space.
inline std::vector<std::string> reference_words(std::string_view bytes) {
  std::string shown;
  std::vector<std::size_t> origin;  // of every byte of `shown`
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t length = character_length(bytes.substr(at));
    const std::string_view character = length == 0 ? "\xEE\x80\x80" : bytes.substr(at, length);
    shown += character;
    origin.insert(origin.end(), character.size(), at);
    at += std::max<std::size_t>(length, 1);
  }
  origin.push_back(bytes.size());
  std::vector<std::string> words;
  std::size_t begin = 0;
  for (const std::size_t end : split_by_pattern(shown)) {
    words.emplace_back(bytes.substr(origin[begin], origin[end] - origin[begin]));
    begin = end;
  }
  return words;
}

/// GPT-2's own way: find the earliest merge that applies, apply it everywhere from left to right,
/// begin again. On strings, so that ids play no part.
class ReferenceBpe {
 public:
  explicit ReferenceBpe(const BpeModel& model) {
    for (std::size_t rank = 0; rank < model.merges.size(); ++rank) {
      const Merge& merge = model.merges[rank];
      ranks_[{model.pieces[static_cast<std::size_t>(merge.left)],
              model.pieces[static_cast<std::size_t>(merge.right)]}] = rank;
    }
    for (std::size_t id = 0; id < model.pieces.size(); ++id) {
      ids_.emplace(model.pieces[id], static_cast<Id>(id));
    }
  }

  std::vector<Id> encode(std::string_view bytes) const {
    std::vector<Id> ids;
    for (const std::string& word : reference_words(bytes)) {
      for (const std::string& piece : merged(word)) ids.push_back(ids_.at(piece));
    }
    return ids;
  }

 private:
  std::vector<std::string> merged(const std::string& word) const {
    std::vector<std::string> pieces;
    for (const char c : word) pieces.emplace_back(1, c);
    while (true) {
      std::pair<std::string, std::string> best;
      std::size_t best_rank = ranks_.size();
      for (std::size_t i = 1; i < pieces.size(); ++i) {
        const auto hit = ranks_.find({pieces[i - 1], pieces[i]});
        if (hit == ranks_.end() || hit->second >= best_rank) continue;
        best_rank = hit->second;
        best = hit->first;
      }
      if (best_rank == ranks_.size()) return pieces;
      std::vector<std::string> next;
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        if (i + 1 < pieces.size() && pieces[i] == best.first && pieces[i + 1] == best.second) {
          next.push_back(pieces[i] + pieces[i + 1]);
          ++i;
        } else {
          next.push_back(pieces[i]);
        }
      }
      pieces = next;
    }
  }

  std::map<std::pair<std::string, std::string>, std::size_t> ranks_;
  std::map<std::string, Id> ids_;
};

using Ids = std::vector<Id>;

/// Text made to hurt: contractions, all kinds of space, scripts, marks, digits, broken UTF-8.
inline std::string nasty_text(Dice& dice, std::size_t parts) {
  static const std::vector<std::string> kParts = {"'s",
                                                  "'t",
                                                  "'re",
                                                  "'ve",
                                                  "'m",
                                                  "'ll",
                                                  "'d",
                                                  "'",
                                                  "''",
                                                  "'S",
                                                  "'l",
                                                  "'r",
                                                  " ",
                                                  "  ",
                                                  "   ",
                                                  "\t",
                                                  "\n",
                                                  "\r\n",
                                                  "\n\n",
                                                  "\v",
                                                  "\f",
                                                  "\x1c",
                                                  std::string(1, '\0'),
                                                  "the",
                                                  "The",
                                                  "word",
                                                  "ing",
                                                  "a",
                                                  "I",
                                                  "z",
                                                  "0",
                                                  "7",
                                                  "123",
                                                  "\xC2\xA0",
                                                  "\xC2\x85",
                                                  "\xE2\x80\x83",
                                                  "\xE2\x80\xA8",
                                                  "\xE3\x80\x80",
                                                  "\xE1\xA0\x8E",
                                                  "\xEF\xBB\xBF",
                                                  "\xE2\x80\x8B",
                                                  "é",
                                                  "e\xCC\x81",
                                                  "ß",
                                                  "Ж",
                                                  "好",
                                                  "こ",
                                                  "ⅷ",
                                                  "½",
                                                  "²",
                                                  "٣",
                                                  "😀",
                                                  "👨\xE2\x80\x8D👩",
                                                  "!",
                                                  "...",
                                                  "_",
                                                  "-",
                                                  "<|",
                                                  "|>",
                                                  "\"",
                                                  "$",
                                                  "\x80",
                                                  "\xFF",
                                                  "\xC3",
                                                  "\xE2\x82",
                                                  "\xED\xA0\x80",
                                                  "\xC0\x80",
                                                  "\xF4\x90\x80\x80",
                                                  "\xF0\x9F",
                                                  "\xE0\x80\x80"};
  std::string text;
  for (std::size_t i = 0; i < parts; ++i) text += dice.pick(kParts);
  return text;
}

inline std::string random_bytes(Dice& dice, std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(dice.roll(256));
  return bytes;
}

}  // namespace norma::text
