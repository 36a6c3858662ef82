#include "norma/text/visible.h"

#include <algorithm>
#include <utility>

namespace norma::text {

namespace {

/// What stands at the beginning of some bytes.
struct Character {
  std::size_t bytes = 1;
  bool whole = false;     // a character; `code` is its number
  bool possible = false;  // not yet whole, but more bytes can make it so
  std::uint32_t code = 0;
};

Character first_character(std::string_view bytes) {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i]));
  };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {.whole = true, .code = lead};
  if (lead < 0xC2 || lead > 0xF4) return {};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  std::uint32_t code = lead & (0x7FU >> length);
  for (std::size_t i = 1; i < std::min(length, bytes.size()); ++i) {
    // The second byte also rules out overlong forms, surrogates and numbers beyond U+10FFFF.
    const std::uint32_t least = i > 1 ? 0x80 : lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const std::uint32_t most = i > 1 ? 0xBF : lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (byte(i) < least || byte(i) > most) return {};
    code = (code << 6) | (byte(i) & 0x3FU);
  }
  if (bytes.size() < length) return {.bytes = bytes.size(), .possible = true};
  return {.bytes = length, .whole = true, .code = code};
}

std::string hex(std::uint32_t value, int digits) {
  std::string text;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    text += "0123456789abcdef"[(value >> shift) & 15U];
  }
  return text;
}

bool turns_direction(std::uint32_t code) {
  return (code >= 0x200E && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069) || code == 0x061C;
}

std::string shown(std::string_view character, std::uint32_t code, Lines lines) {
  if (code == '\\' || code == '\n' || code == '\t') {
    if (lines == Lines::many) return std::string(character);
    return code == '\\' ? "\\\\" : code == '\n' ? "\\n" : "\\t";
  }
  if (code == '\r') return "\\r";
  if (code < 0x20 || code == 0x7F) return "\\x" + hex(code, 2);
  if (code >= 0x80 && (code < 0xA0 || turns_direction(code))) return "\\u{" + hex(code, 4) + "}";
  return std::string(character);
}

}  // namespace

std::string visible(std::string_view bytes, Lines lines) {
  std::string text;
  while (!bytes.empty()) {
    const Character next = first_character(bytes);
    const std::size_t length = next.whole ? next.bytes : 1;
    text += next.whole ? shown(bytes.substr(0, length), next.code, lines)
                       : "\\x" + hex(static_cast<unsigned char>(bytes[0]), 2);
    bytes.remove_prefix(length);
  }
  return text;
}

std::string WholeCharacters::take(std::string_view bytes) {
  std::string all = std::move(waiting_) + std::string(bytes);
  std::size_t at = 0;
  while (at < all.size()) {
    const Character next = first_character(std::string_view(all).substr(at));
    if (next.possible) break;
    at += next.bytes;
  }
  waiting_ = all.substr(at);
  all.resize(at);
  return all;
}

std::string WholeCharacters::rest() { return std::exchange(waiting_, {}); }

}  // namespace norma::text
