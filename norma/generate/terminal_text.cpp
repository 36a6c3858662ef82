#include "norma/generate/terminal_text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace norma {

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

bool drives_a_terminal(std::uint32_t code) {
  if (code == '\n' || code == '\t') return false;
  const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  const bool direction = code == 0x061C || code == 0x200E || code == 0x200F ||
                         (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return control || direction;
}

std::string escaped(char letter, std::uint32_t value, int digits) {
  constexpr std::array kDigits = {
      '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'};
  std::string text = {'\\', letter};
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
    text += kDigits[(value >> shift) & 15U];
  return text;
}

}  // namespace

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

std::string visible_text(std::string_view bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size();) {
    const Character next = first_character(bytes.substr(at));
    const std::size_t length = next.whole ? next.bytes : 1;
    if (!next.whole) {
      text += escaped('x', static_cast<unsigned char>(bytes[at]), 2);
    } else if (drives_a_terminal(next.code)) {
      text += next.code < 0x100 ? escaped('x', next.code, 2) : escaped('u', next.code, 4);
    } else {
      text += bytes.substr(at, length);
    }
    at += length;
  }
  return text;
}

}  // namespace norma
