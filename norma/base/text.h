// Building sentences and table cells out of values.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <vector>

#include "norma/base/types.h"

namespace norma {

inline std::string to_text(std::string_view part) { return std::string(part); }
inline std::string to_text(const char* part) { return part; }
inline std::string to_text(char part) { return std::string(1, part); }
template <std::integral N>
std::string to_text(N value) {
  return std::to_string(value);
}
/// Shortest form with six significant digits.
std::string to_text(double value);

/// say("wanted ", 3, ", got ", x) is one string.
template <class... Parts>
std::string say(const Parts&... parts) {
  std::string joined;
  ((joined += to_text(parts)), ...);
  return joined;
}

std::string fixed(double value, int digits);       // 3.14
std::string scientific(double value, int digits);  // 3.1e+00
std::string pad_left(const std::string& text, std::size_t width);
std::string pad_right(std::string text, std::size_t width);
std::string human_bytes(double bytes);  // 1.5 GiB

/// A text for a sentence: a long one is cut between two characters and ends in "…".
std::string text_start(std::string_view text);

/// The candidate that takes the fewest edits to become `word`; empty when nothing is near.
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace norma
