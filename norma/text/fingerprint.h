// A short name for the contents of a vocabulary: FNV-1a over its parts, each with its length, so
// that moving a boundary changes it. It tells vocabularies apart; it does not stop a forger.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace norma::text {

class Fingerprint {
 public:
  void add(std::uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8)
      add_byte(static_cast<std::uint8_t>(number >> shift));
  }
  void add(std::string_view part) {
    add(part.size());
    for (const char c : part) add_byte(static_cast<std::uint8_t>(c));
  }
  std::string text() const {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string digits;
    for (int shift = 60; shift >= 0; shift -= 4) digits += kDigits[(state_ >> shift) & 15U];
    return digits;
  }

 private:
  void add_byte(std::uint8_t byte) { state_ = (state_ ^ byte) * 0x100000001B3ULL; }

  std::uint64_t state_ = 0xCBF29CE484222325ULL;
};

}  // namespace norma::text
