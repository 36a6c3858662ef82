#include "norma/text/words.h"

#include <algorithm>

namespace norma::text {

namespace {

/// The length of a contraction at `at`, where there is an apostrophe; 0 for none.
std::size_t contraction(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at + 1, 2);
  if (rest.empty()) return 0;
  if (rest[0] == 's' || rest[0] == 't' || rest[0] == 'm' || rest[0] == 'd') return 2;
  if (rest == "re" || rest == "ve" || rest == "ll") return 3;
  return 0;
}

struct Decoded {
  char32_t character;
  std::size_t bytes;
};

/// The character of 2 to 4 bytes at `at`; 0 bytes when there is no UTF-8.
Decoded decode_long(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned head = byte(0);
  const std::size_t bytes = head < 0xC2 ? 0 : (head < 0xE0 ? 2 : (head < 0xF0 ? 3 : 4));
  if (bytes == 0 || head > 0xF4 || text.size() - at < bytes) return {0, 0};
  char32_t character = head & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return {0, 0};
    character = (character << 6) | (byte(i) & 0x3FU);
  }
  const bool overlong = (bytes == 3 && character < 0x800) || (bytes == 4 && character < 0x10000);
  const bool surrogate = character >= 0xD800 && character <= 0xDFFF;
  if (overlong || surrogate || character > 0x10FFFF) return {0, 0};
  return {character, bytes};
}

}  // namespace

WordScanner::WordScanner() : classes_(UnicodeClasses::get()) {
  for (std::size_t c = 0; c < ascii_.size(); ++c) ascii_[c] = classes_.of(static_cast<char32_t>(c));
}

WordScanner::Symbol WordScanner::symbol_at(std::string_view text, std::size_t at) const {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) return {ascii_[byte], 1};
  const Decoded decoded = decode_long(text, at);
  if (decoded.bytes == 0) return {CharClass::other, 1};
  return {classes_.of(decoded.character), decoded.bytes};
}

std::size_t WordScanner::end_of_run(std::string_view text, std::size_t at, CharClass kind) const {
  while (at < text.size()) {
    const Symbol symbol = symbol_at(text, at);
    if (symbol.kind != kind) break;
    at += symbol.bytes;
  }
  return at;
}

std::size_t WordScanner::end_of_word(std::string_view text, std::size_t begin) const {
  if (text[begin] == '\'') {
    const std::size_t bytes = contraction(text, begin);
    if (bytes > 0) return begin + bytes;
  }
  const std::size_t start = begin + (text[begin] == ' ' && begin + 1 < text.size() ? 1 : 0);
  const Symbol first = symbol_at(text, start);
  if (first.kind != CharClass::space) return end_of_run(text, start + first.bytes, first.kind);

  // White space keeps its last character for what follows, unless nothing follows or it is alone.
  std::size_t at = begin;
  std::size_t last = begin;
  while (at < text.size()) {
    const Symbol symbol = symbol_at(text, at);
    if (symbol.kind != CharClass::space) break;
    last = at;
    at += symbol.bytes;
  }
  return at == text.size() || last == begin ? at : last;
}

std::size_t next_cut(std::string_view text, std::size_t from) {
  for (std::size_t at = std::max<std::size_t>(from, 1); at < text.size(); ++at) {
    if (is_cut(text[at - 1], text[at])) return at;
  }
  return text.size();
}

std::size_t last_cut(std::string_view text) {
  for (std::size_t at = text.size(); at-- > 1;) {
    if (is_cut(text[at - 1], text[at])) return at;
  }
  return 0;
}

}  // namespace norma::text
