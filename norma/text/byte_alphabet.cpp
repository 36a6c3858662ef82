#include "norma/text/byte_alphabet.h"

#include <array>
#include <vector>

namespace norma::text {

namespace {

constexpr int kSymbols = 0x144;  // characters below U+0144 are used

struct Alphabet {
  std::array<std::uint16_t, 256> symbol_of_byte{};
  std::array<std::int16_t, kSymbols> byte_of_symbol{};
  std::array<std::uint8_t, 256> byte_of_id{};
};

constexpr bool is_printable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (std::int16_t& byte : alphabet.byte_of_symbol) byte = -1;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const int symbol = is_printable(byte) ? byte : next++;
    alphabet.symbol_of_byte[byte] = static_cast<std::uint16_t>(symbol);
    alphabet.byte_of_symbol[symbol] = static_cast<std::int16_t>(byte);
  }
  int id = 0;
  for (const std::int16_t byte : alphabet.byte_of_symbol) {
    if (byte >= 0) alphabet.byte_of_id[id++] = static_cast<std::uint8_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::uint8_t byte_of_id(int id) { return kAlphabet.byte_of_id.at(static_cast<std::size_t>(id)); }

const std::string& symbol_of_id(int id) {
  static const std::vector<std::string> kSymbols = [] {
    std::vector<std::string> symbols;
    for (const std::uint8_t byte : kAlphabet.byte_of_id) {
      symbols.push_back(spell(std::string(1, static_cast<char>(byte))));
    }
    return symbols;
  }();
  return kSymbols.at(static_cast<std::size_t>(id));
}

std::string spell(std::string_view bytes) {
  std::string spelled;
  for (const char c : bytes) {
    const int symbol = kAlphabet.symbol_of_byte[static_cast<std::uint8_t>(c)];
    if (symbol < 0x80) {
      spelled += static_cast<char>(symbol);
    } else {  // all symbols lie below U+0800: two bytes of UTF-8
      spelled += static_cast<char>(0xC0 | (symbol >> 6));
      spelled += static_cast<char>(0x80 | (symbol & 0x3F));
    }
  }
  return spelled;
}

std::optional<std::string> unspell(std::string_view spelled) {
  std::string bytes;
  for (std::size_t i = 0; i < spelled.size(); ++i) {
    int symbol = static_cast<std::uint8_t>(spelled[i]);
    if (symbol >= 0x80) {
      if (symbol < 0xC2 || symbol > 0xDF || i + 1 == spelled.size()) return std::nullopt;
      const int tail = static_cast<std::uint8_t>(spelled[++i]);
      if ((tail & 0xC0) != 0x80) return std::nullopt;
      symbol = ((symbol & 0x1F) << 6) | (tail & 0x3F);
    }
    if (symbol >= kSymbols || kAlphabet.byte_of_symbol[symbol] < 0) return std::nullopt;
    bytes += static_cast<char>(kAlphabet.byte_of_symbol[symbol]);
  }
  return bytes;
}

}  // namespace norma::text
