// Bytes of a model on their way to a person: models may produce anything.
#pragma once

#include <string>
#include <string_view>

namespace norma {

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

/// The same text with what could drive a terminal made visible: control characters but new line and
/// tab, marks that turn the direction of writing, and bytes that are no UTF-8, as \x1b or \u202e.
std::string visible_text(std::string_view bytes);

}  // namespace norma
