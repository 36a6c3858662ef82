// JSON that somebody else wrote, read whole: for files like tokenizer.json. Nesting and size are
// limited, and a key that comes twice is refused, because readers disagree on which one counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace norma {

struct JsonMember;

struct JsonValue {
  enum class Kind : std::uint8_t { null, boolean, integer, number, string, array, object };
  Kind kind = Kind::null;
  bool boolean = false;
  std::int64_t integer = 0;
  double number = 0;  // an integer that does not fit in 64 bits also lands here
  std::string text;
  std::vector<JsonValue> items;
  std::vector<JsonMember> members;  // in the order of the file

  /// The member of that name; null when it is absent or this is no object.
  const JsonValue* find(std::string_view key) const;
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

struct JsonLimits {
  std::size_t bytes = std::size_t{256} << 20;
  std::size_t depth = 32;
};

/// `file` opens every complaint, which is thrown as an Error. Strings must be UTF-8.
JsonValue parse_json(std::string_view file, std::string_view text, const JsonLimits& limits = {});

}  // namespace norma
