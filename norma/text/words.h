// Cuts bytes into words exactly as kWordPattern does: a contraction ('s 't 're 've 'm 'll 'd), or
// a run of letters, of numbers or of other characters with at most one space before it, or white
// space. Words follow each other without gaps, and no merge of a BPE crosses their ends.
//
// Bytes that are no UTF-8 (stray tails, overlong forms, surrogates, values past U+10FFFF) count as
// one character each, of the class `other`.
#pragma once

#include <array>
#include <string_view>

#include "norma/text/unicode.h"

namespace norma::text {

class WordScanner {
 public:
  WordScanner();

  /// The end of the word that begins at `begin` < text.size().
  std::size_t end_of_word(std::string_view text, std::size_t begin) const;

 private:
  struct Symbol {
    CharClass kind;
    std::size_t bytes;
  };
  Symbol symbol_at(std::string_view text, std::size_t at) const;
  std::size_t end_of_run(std::string_view text, std::size_t at, CharClass kind) const;

  const UnicodeClasses& classes_;
  std::array<CharClass, 128> ascii_;
};

/// A place where text may be cut without changing its words: between an ASCII character that is no
/// white space and one that is. No word has white space behind something else, and the pattern
/// never looks back, so both sides come out as they do in the whole.
constexpr bool is_ascii_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
constexpr bool is_cut(char before, char after) {
  return static_cast<unsigned char>(before) < 0x80 && !is_ascii_space(before) &&
         is_ascii_space(after);
}

/// The first cut at or after `from`; text.size() when there is none.
std::size_t next_cut(std::string_view text, std::size_t from);
/// The last cut; 0 when there is none.
std::size_t last_cut(std::string_view text);

}  // namespace norma::text
