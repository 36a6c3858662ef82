#include "norma/text/bpe_training.h"

#include <algorithm>
#include <array>
#include <queue>
#include <set>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/text/byte_alphabet.h"

namespace norma::text {

namespace {

constexpr int kBytes = 256;
constexpr std::size_t kProgressEvery = 100;  // merges

using Pair = std::pair<Id, Id>;

struct Word {
  std::vector<Id> ids;
  std::uint64_t count;
};

struct PairHash {
  std::size_t operator()(const Pair& pair) const {
    const auto key =
        (static_cast<std::uint64_t>(pair.first) << 32) | static_cast<std::uint32_t>(pair.second);
    return (key * 0x9E3779B97F4A7C15ULL) >> 20;
  }
};

struct PairUse {
  std::uint64_t count = 0;           // over all words
  std::vector<std::uint32_t> words;  // that had the pair once; some may have lost it since
};

struct Candidate {
  std::uint64_t count;
  Pair pair;
  /// The heap's greatest is the most frequent, then the first pair.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return a.count != b.count ? a.count < b.count : a.pair > b.pair;
  }
};

/// Keeps the count of every pair up to date while words change.
class Learner {
 public:
  explicit Learner(std::vector<Word> words) : words_(std::move(words)) {
    for (std::uint32_t i = 0; i < words_.size(); ++i) {
      for_each_pair(words_[i], [&](const Pair& pair) { count_up(pair, i); });
    }
    for (const auto& [pair, use] : uses_) candidates_.push({use.count, pair});
  }

  /// The pair to merge next; false when none occurs `least` times.
  bool next(std::uint64_t least, Pair& pair) {
    while (!candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      const auto use = uses_.find(best.pair);
      const std::uint64_t count = use == uses_.end() ? 0 : use->second.count;
      if (count == best.count && count >= least) {
        pair = best.pair;
        return true;
      }
      // Counts only fall once a pair is in the heap, so a stale entry stands too high, never too
      // low.
      if (count < best.count && count >= least) candidates_.push({count, best.pair});
    }
    return false;
  }

  void merge(const Pair& pair, Id result) {
    const std::vector<std::uint32_t> touched = std::move(uses_[pair].words);
    std::set<Pair> fresh;
    for (const std::uint32_t i : touched) {
      Word& word = words_[i];
      if (!has(word, pair)) continue;
      for_each_pair(word, [&](const Pair& old) { uses_[old].count -= word.count; });
      join(word, pair, result);
      for_each_pair(word, [&](const Pair& now) {
        if (now.first == result || now.second == result) {
          count_up(now, i);
          fresh.insert(now);
        } else {
          uses_[now].count += word.count;
        }
      });
    }
    uses_.erase(pair);
    for (const Pair& now : fresh) candidates_.push({uses_[now].count, now});
  }

 private:
  template <class Visit>
  static void for_each_pair(const Word& word, Visit&& visit) {
    for (std::size_t i = 1; i < word.ids.size(); ++i) visit({word.ids[i - 1], word.ids[i]});
  }

  static bool has(const Word& word, const Pair& pair) {
    for (std::size_t i = 1; i < word.ids.size(); ++i) {
      if (word.ids[i - 1] == pair.first && word.ids[i] == pair.second) return true;
    }
    return false;
  }

  static void join(Word& word, const Pair& pair, Id result) {
    std::size_t to = 0;
    for (std::size_t from = 0; from < word.ids.size(); ++from, ++to) {
      const bool here = from + 1 < word.ids.size() && word.ids[from] == pair.first &&
                        word.ids[from + 1] == pair.second;
      word.ids[to] = here ? result : word.ids[from];
      if (here) ++from;
    }
    word.ids.resize(to);
  }

  void count_up(const Pair& pair, std::uint32_t word) {
    PairUse& use = uses_[pair];
    use.count += words_[word].count;
    if (use.words.empty() || use.words.back() != word) use.words.push_back(word);
  }

  std::vector<Word> words_;
  std::unordered_map<Pair, PairUse, PairHash> uses_;
  std::priority_queue<Candidate> candidates_;
};

}  // namespace

BpeTrainer::BpeTrainer(BpeTrainingSpec spec) : spec_(std::move(spec)) {
  const std::int64_t least = kBytes + static_cast<std::int64_t>(spec_.specials.size());
  if (spec_.vocab_size < least || spec_.vocab_size > kMostIds) {
    throw RequestError(say("a vocabulary must have ",
                           least,
                           " to ",
                           kMostIds,
                           " ids (256 bytes and the special tokens at least), got ",
                           spec_.vocab_size,
                           "."));
  }
}

void BpeTrainer::add(std::string_view bytes) {
  std::size_t begin = 0;
  while (true) {
    std::size_t end = bytes.size();
    std::size_t after = bytes.size();
    for (const std::string& special : spec_.specials) {
      const std::size_t at = bytes.substr(0, end).find(special, begin);
      if (at == std::string_view::npos) continue;
      end = at;
      after = at + special.size();
    }
    add_document(bytes.substr(begin, end - begin));
    if (end == bytes.size()) return;
    begin = after;
  }
}

void BpeTrainer::add_document(std::string_view bytes) {
  std::size_t end = 0;
  for (std::size_t at = 0; at < bytes.size(); at = end) {
    end = scanner_.end_of_word(bytes, at);
    if (end - at > spec_.longest_word) continue;
    const std::string_view word = bytes.substr(at, end - at);
    const auto known = counts_.find(word);
    if (known != counts_.end()) {
      ++known->second;
    } else {
      counts_.emplace(word, 1);
    }
  }
}

BpeModel BpeTrainer::train(const Progress& progress) const {
  BpeModel model;
  model.name = "bpe";
  std::array<Id, kBytes> ids{};
  for (int id = 0; id < kBytes; ++id) {
    ids[byte_of_id(id)] = id;
    model.pieces.emplace_back(1, static_cast<char>(byte_of_id(id)));
  }

  // Sums of counts do not depend on the order of the words, so neither do the merges.
  std::vector<Word> words;
  for (const auto& [word, count] : counts_) {
    Word& fresh = words.emplace_back(Word{{}, count});
    for (const char c : word) fresh.ids.push_back(ids[static_cast<std::uint8_t>(c)]);
  }
  Learner learner(std::move(words));

  const std::size_t wanted =
      static_cast<std::size_t>(spec_.vocab_size) - kBytes - spec_.specials.size();
  Pair pair;
  while (model.merges.size() < wanted && learner.next(spec_.least_count, pair)) {
    const Merge merge = {pair.first, pair.second, static_cast<Id>(model.pieces.size())};
    // Two pairs never spell the same piece: the same bytes, untouched from outside, were merged in
    // the same way everywhere.
    model.pieces.push_back(model.pieces[static_cast<std::size_t>(merge.left)] +
                           model.pieces[static_cast<std::size_t>(merge.right)]);
    model.merges.push_back(merge);
    learner.merge(pair, merge.result);
    if (progress && model.merges.size() % kProgressEvery == 0)
      progress(model.merges.size(), wanted);
  }
  if (progress) progress(model.merges.size(), wanted);
  for (const std::string& special : spec_.specials) {
    model.specials.push_back({special, static_cast<Id>(model.pieces.size())});
    model.pieces.push_back(special);
  }
  return model;
}

}  // namespace norma::text
