#include "norma/text/visible.h"

#include <cstdint>

#include "norma/io/strict_json.h"

namespace norma::text {

namespace {

std::string hex(std::uint32_t value, int digits) {
  std::string text;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    text += "0123456789abcdef"[(value >> shift) & 15U];
  }
  return text;
}

/// Bytes of the character that begins with `lead`, in text that is UTF-8.
std::size_t length_of(std::uint8_t lead) {
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

std::uint32_t code_of(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(character[i]); };
  if (character.size() == 1) return byte(0);
  std::uint32_t code = byte(0) & (0xFFU >> (character.size() + 1));
  for (std::size_t i = 1; i < character.size(); ++i) code = code << 6 | (byte(i) & 63U);
  return code;
}

bool turns_direction(std::uint32_t code) {
  return (code >= 0x200E && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069) || code == 0x061C;
}

std::string shown(std::string_view character) {
  const std::uint32_t code = code_of(character);
  if (code == '\\') return "\\\\";
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  if (code < 0x20 || code == 0x7F) return "\\x" + hex(code, 2);
  if (code < 0x80) return std::string(character);
  if (code < 0xA0 || turns_direction(code)) return "\\u{" + hex(code, 4) + "}";
  return std::string(character);
}

}  // namespace

std::string visible(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const std::size_t bad = io::first_bad_utf8(bytes);
    std::string_view good = bytes.substr(0, bad);
    while (!good.empty()) {
      const std::size_t length = length_of(static_cast<std::uint8_t>(good[0]));
      text += shown(good.substr(0, length));
      good.remove_prefix(length);
    }
    if (bad == std::string_view::npos) break;
    text += "\\x" + hex(static_cast<std::uint8_t>(bytes[bad]), 2);
    bytes.remove_prefix(bad + 1);
  }
  return text;
}

}  // namespace norma::text
