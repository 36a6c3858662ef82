// Learns a byte-pair encoding: again and again, the pair of neighbours that occurs most often
// becomes one piece; of equally frequent ones the pair with the smaller left id, then the smaller
// right id. The same bytes give the same merges, in whatever order and pieces they come.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "norma/text/bpe_model.h"
#include "norma/text/words.h"

namespace norma::text {

struct BpeTrainingSpec {
  Id vocab_size = 0;  // bytes, merges and special tokens together
  /// They get the last ids. Where their text occurs, a document ends.
  std::vector<std::string> specials = {std::string(kEndOfText)};
  std::uint64_t least_count = 2;    // pairs that occur less often stay apart
  std::size_t longest_word = 1024;  // bytes; longer words (a file of base64) do not count
};

class BpeTrainer {
 public:
  /// A RequestError when the vocabulary has no room for the bytes and the special tokens.
  explicit BpeTrainer(BpeTrainingSpec spec);

  /// Counts the words of one or more documents. The end of `bytes` ends a document.
  void add(std::string_view bytes);

  /// progress(merges made, merges wanted), now and then.
  using Progress = std::function<void(std::size_t, std::size_t)>;
  /// Fewer merges than wanted when no pair occurs often enough. Time goes with the number of
  /// different words that a merge touches, not with the length of the text.
  BpeModel train(const Progress& progress = {}) const;

 private:
  struct Hash {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the library's word
    std::size_t operator()(std::string_view word) const {
      return std::hash<std::string_view>{}(word);
    }
  };

  void add_document(std::string_view bytes);

  BpeTrainingSpec spec_;
  WordScanner scanner_;
  std::unordered_map<std::string, std::uint64_t, Hash, std::equal_to<>> counts_;
};

}  // namespace norma::text
