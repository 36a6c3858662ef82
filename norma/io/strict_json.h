// A reader for JSON that a hostile hand may have written. It knows what our files use (objects,
// arrays, strings, unsigned integers) and refuses the rest: fractions, exponents, signs, leading
// zeros, true, false, null, comments, keys that come twice, deep nesting, control characters,
// broken UTF-8 and lone surrogates. Nothing is built: the caller asks for what it expects next.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace norma::io {

class StrictJson {
 public:
  /// `file` opens every complaint; `text` must outlive the reader. Throws on broken UTF-8.
  StrictJson(std::string file, std::string_view text);

  /// Calls member(key) at each value of the object; the callback reads that value.
  void object(const std::function<void(const std::string& key)>& member);
  /// Calls item() at each element of the array.
  void array(const std::function<void()>& item);
  std::string string();
  std::uint64_t integer();
  bool at_string();  // the next value is a string
  /// Only white space may be left.
  void end();

  /// "a.safetensors: JSON byte 17: …", thrown as an Error.
  [[noreturn]] void refuse(std::string_view complaint) const;

 private:
  char peek();  // the next character that is not white space, or 0 at the end
  void expect(char wanted, std::string_view where);
  void enter();
  std::uint32_t hex4();
  void escape(std::string& into);

  std::string file_;
  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

/// `text` as a JSON string with its quotes. The text must be UTF-8.
std::string json_string(std::string_view text);

/// The same for a message: a long text is cut between two characters and ends in "…".
std::string json_string_start(std::string_view text);

/// Offset of the first byte that is no UTF-8 (overlong forms, surrogates and values past U+10FFFF
/// included), or npos.
std::size_t first_bad_utf8(std::string_view text);

}  // namespace norma::io
