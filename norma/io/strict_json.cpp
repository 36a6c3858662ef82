#include "norma/io/strict_json.h"

#include <limits>
#include <set>

#include "norma/base/error.h"
#include "norma/base/text.h"

namespace norma::io {

namespace {

constexpr int kDeepest = 4;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A character as it may be shown in a message: control characters would garble the terminal.
std::string shown(char c) {
  if (c == 0) return "the end";
  if (c > ' ' && c < 127) return say("'", std::string_view(&c, 1), "'");
  return say("byte ", static_cast<int>(static_cast<unsigned char>(c)));
}

void append_utf8(std::string& into, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { into += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 63));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 63));
    put(0x80 | (code & 63));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 63));
    put(0x80 | (code >> 6 & 63));
    put(0x80 | (code & 63));
  }
}

}  // namespace

StrictJson::StrictJson(std::string file, std::string_view text)
    : file_(std::move(file)), text_(text) {
  at_ = first_bad_utf8(text);
  if (at_ != std::string_view::npos) refuse("this is not UTF-8.");
  at_ = 0;
}

void StrictJson::refuse(std::string_view complaint) const {
  throw Error(say(file_, ": JSON byte ", at_, ": ", complaint));
}

char StrictJson::peek() {
  while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != std::string::npos) {
    ++at_;
  }
  return at_ < text_.size() ? text_[at_] : '\0';
}

void StrictJson::expect(char wanted, std::string_view where) {
  const char found = peek();
  if (found != wanted) {
    refuse(say("expected ", shown(wanted), " ", where, ", found ", shown(found), "."));
  }
  ++at_;
}

void StrictJson::enter() {
  if (++depth_ > kDeepest) refuse(say("nested deeper than ", kDeepest, " levels."));
}

void StrictJson::object(const std::function<void(const std::string& key)>& member) {
  expect('{', "at the start of an object");
  enter();
  std::set<std::string> seen;  // ordered: keys chosen to collide in a hash table would stall us
  if (peek() != '}') {
    do {
      std::string key = string();
      expect(':', "after a key");
      const auto [entry, fresh] = seen.insert(std::move(key));
      if (!fresh) refuse(say("the key ", json_string_start(*entry), " comes twice."));
      member(*entry);
    } while (peek() == ',' && ++at_ > 0);
  }
  expect('}', "at the end of an object");
  --depth_;
}

void StrictJson::array(const std::function<void()>& item) {
  expect('[', "at the start of an array");
  enter();
  if (peek() != ']') {
    do {
      item();
    } while (peek() == ',' && ++at_ > 0);
  }
  expect(']', "at the end of an array");
  --depth_;
}

bool StrictJson::at_string() { return peek() == '"'; }

std::string StrictJson::string() {
  expect('"', "at the start of a string");
  std::string value;
  while (at_ < text_.size() && text_[at_] != '"') {
    const char c = text_[at_];
    if (static_cast<unsigned char>(c) < 0x20) refuse(say("a string holds the raw ", shown(c), "."));
    ++at_;
    if (c == '\\') {
      escape(value);
    } else {
      value += c;
    }
  }
  if (at_ == text_.size()) refuse("a string has no end.");
  ++at_;
  return value;
}

void StrictJson::escape(std::string& into) {
  const char c = at_ < text_.size() ? text_[at_++] : '\0';
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const std::size_t simple = kLetters.find(c);
  if (simple != std::string_view::npos) {
    into += kMeanings[simple];
    return;
  }
  if (c != 'u') refuse(say("there is no escape with ", shown(c), "."));
  std::uint32_t code = hex4();
  const bool high = code >= 0xd800 && code < 0xdc00;
  const bool low = code >= 0xdc00 && code < 0xe000;
  if (high && text_.substr(at_, 2) == "\\u") {
    at_ += 2;
    const std::uint32_t second = hex4();
    if (second < 0xdc00 || second >= 0xe000) refuse("half of a surrogate pair stands alone.");
    code = 0x10000 + ((code - 0xd800) << 10) + (second - 0xdc00);
  } else if (high || low) {
    refuse("half of a surrogate pair stands alone.");
  }
  append_utf8(into, code);
}

std::uint32_t StrictJson::hex4() {
  std::uint32_t code = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    const bool lower = c >= 'a' && c <= 'f';
    const bool upper = c >= 'A' && c <= 'F';
    if (!is_digit(c) && !lower && !upper) refuse("\\u wants four hexadecimal digits.");
    const int digit = is_digit(c) ? c - '0' : lower ? c - 'a' + 10 : c - 'A' + 10;
    code = code * 16 + static_cast<std::uint32_t>(digit);
    ++at_;
  }
  return code;
}

std::uint64_t StrictJson::integer() {
  const char first = peek();
  if (!is_digit(first)) {
    refuse(say("expected a whole number of 0 or more, found ", shown(first), "."));
  }
  std::uint64_t value = 0;
  const std::size_t start = at_;
  for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
    const auto digit = static_cast<std::uint64_t>(text_[at_] - '0');
    if (value > (std::numeric_limits<std::uint64_t>::max() - digit) / 10) {
      refuse("the number does not fit into 64 bits.");
    }
    value = value * 10 + digit;
  }
  if (first == '0' && at_ > start + 1) refuse("the number has a leading zero.");
  if (at_ < text_.size() && std::string_view(".eE").find(text_[at_]) != std::string::npos) {
    refuse("expected a whole number, found a fraction or an exponent.");
  }
  return value;
}

void StrictJson::end() {
  if (peek() != '\0' || at_ != text_.size()) refuse("something follows the end of the object.");
}

std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      constexpr std::string_view kHex = "0123456789abcdef";
      quoted += "\\u00";
      quoted += kHex[byte >> 4];
      quoted += kHex[byte & 15];
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string json_string_start(std::string_view text) {
  constexpr std::size_t kMost = 80;
  if (text.size() <= kMost) return json_string(text);
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return json_string(say(text.substr(0, end), "…"));
}

std::size_t first_bad_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) -> std::uint32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  for (std::size_t i = 0; i < text.size();) {
    const std::uint32_t lead = byte(i);
    const std::size_t length = lead < 0x80             ? 1
                               : (lead & 0xe0) == 0xc0 ? 2
                               : (lead & 0xf0) == 0xe0 ? 3
                               : (lead & 0xf8) == 0xf0 ? 4
                                                       : 0;
    if (length == 0) return i;
    std::uint32_t code = length == 1 ? lead : lead & (0xffU >> (length + 1));
    for (std::size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return i;
      code = code << 6 | (byte(i + k) & 63);
    }
    constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool surrogate = code >= 0xd800 && code < 0xe000;
    if (code < kLeast[length] || surrogate || code > 0x10ffff) return i;
    i += length;
  }
  return std::string_view::npos;
}

}  // namespace norma::io
