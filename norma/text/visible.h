// Bytes as a person may look at them: documents and models may hold anything.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace norma::text {

enum class Lines : std::uint8_t {
  one,   // new lines and tabs are shown as \n and \t, and a backslash is doubled
  many,  // these three stay as they are
};

/// UTF-8 that cannot drive a terminal: control characters, characters that turn the direction of
/// writing, and bytes that are no UTF-8 are shown as \x1b, \u{202e}.
std::string visible(std::string_view bytes, Lines lines = Lines::one);

/// Lets whole UTF-8 characters pass; the bytes of one that is not complete yet wait. Bytes that
/// can no longer become a character pass as they are.
class WholeCharacters {
 public:
  std::string take(std::string_view bytes);
  /// What still waits, at the end of the text.
  std::string rest();

 private:
  std::string waiting_;
};

}  // namespace norma::text
