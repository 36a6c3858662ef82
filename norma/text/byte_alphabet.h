// How vocabulary files spell bytes. JSON and lines of text cannot hold every byte, so GPT-2 gave
// each byte a printable character: the printable ones of Latin-1 stand for themselves, the other 68
// are, in order, U+0100 to U+0143 (so a space is Ġ and a line feed Ċ). In the order of these
// characters the bytes have the ids 0 to 255.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace norma::text {

/// The byte with that id, 0 to 255.
std::uint8_t byte_of_id(int id);
/// And how it is spelled.
const std::string& symbol_of_id(int id);

/// "\n the" is "ĊĠthe", in UTF-8.
std::string spell(std::string_view bytes);
/// The reverse; nothing when a character stands for no byte.
std::optional<std::string> unspell(std::string_view spelled);

}  // namespace norma::text
