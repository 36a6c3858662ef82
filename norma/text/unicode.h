// What Unicode says of characters, taken from PCRE2's tables, and PCRE2's own matching of the
// pattern that cuts text into words: the definition that norma/text/words.h is compared with.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace norma::text {

enum class CharClass : std::uint8_t { other, letter, number, space };

/// The pattern GPT-2 was published with. \s means White_Space there (PCRE2's own \s also takes
/// U+180E, which has not been white space since Unicode 6.3).
inline constexpr std::string_view kWordPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// The class of every character in 50 KB: pages of 256 characters, equal pages kept once.
class UnicodeClasses {
 public:
  /// Made at the first call (about 45 ms).
  static const UnicodeClasses& get();

  /// `character` is at most U+10FFFF.
  CharClass of(char32_t character) const {
    return pages_[page_of_[character >> 8]][character & 0xFFU];
  }

 private:
  using Page = std::array<CharClass, 256>;

  UnicodeClasses();

  std::array<std::uint16_t, 0x1100> page_of_{};
  std::vector<Page> pages_;
};

/// Where the words of `utf8` end, by PCRE2. Throws when the text is no UTF-8.
std::vector<std::size_t> split_by_pattern(std::string_view utf8);

}  // namespace norma::text
