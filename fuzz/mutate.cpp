#include "fuzz/mutate.h"

#include <algorithm>
#include <vector>

#include "norma/io/seal.h"

namespace norma::fuzz {

namespace {

constexpr std::string_view kTokens[] = {"0",
                                        "1",
                                        "2",
                                        "8",
                                        "255",
                                        "4294967296",
                                        "281474976710655",
                                        "281474976710656",
                                        "9007199254740993",
                                        "9223372036854775808",
                                        "18446744073709551615",
                                        "18446744073709551616",
                                        "-0",
                                        "-1",
                                        "01",
                                        "1e3",
                                        "1.0",
                                        "null",
                                        "true",
                                        "[]",
                                        "{}",
                                        "[0,0]",
                                        "\"F32\"",
                                        "\"F4\"",
                                        "\"F6_E2M3\"",
                                        "\"U8\"",
                                        "\"C64\"",
                                        "\"F33\"",
                                        "\"dtype\"",
                                        "\"shape\"",
                                        "\"data_offsets\"",
                                        "\"__metadata__\"",
                                        "\"vocab\"",
                                        "\"merges\"",
                                        "\"step\"",
                                        "\"files\"",
                                        "\"\"",
                                        "\"\\u0000\"",
                                        "\"\\ud800\"",
                                        "\"\\ud83d\\ude00\"",
                                        "\"a\"",
                                        "\"a b\"",
                                        "\"../a\"",
                                        ",",
                                        ":",
                                        "[",
                                        "]",
                                        "{",
                                        "}",
                                        " ",
                                        "\xc0\x80",
                                        "NaN"};

/// Where the tokens of a text begin.
std::vector<std::size_t> token_starts(std::string_view json) {
  std::vector<std::size_t> starts;
  for (std::size_t at = 0; at < json.size();) {
    starts.push_back(at);
    const bool quoted = json[at] == '"';
    const std::size_t end =
        quoted ? json.find('"', at + 1) : json.find_first_not_of("0123456789", at);
    at = end == std::string::npos ? json.size() : std::max(end + (quoted ? 1 : 0), at + 1);
  }
  return starts;
}

}  // namespace

void change_token(std::string& json, Random& random) {
  const std::vector<std::size_t> starts = token_starts(json);
  if (starts.empty()) return;
  const std::size_t pick = random() % starts.size();
  const std::size_t begin = starts[pick];
  const std::size_t end = pick + 1 < starts.size() ? starts[pick + 1] : json.size();
  const std::string own = json.substr(begin, end - begin);
  const std::string_view other = one_of(kTokens, random);
  switch (random() % 4) {
    case 0:
      json.replace(begin, end - begin, other);
      break;
    case 1:
      json.erase(begin, end - begin);
      break;
    case 2:
      json.insert(begin, own);
      break;
    default:
      json.insert(begin, other);
  }
}

void change_sealed(std::string& json, Random& random) {
  const std::size_t tail = std::min(json.rfind(",\n  \"digest\""), json.size());
  std::string body = json.substr(0, tail);
  change_token(body, random);
  json = one_in(random, 4) ? body + json.substr(tail) : io::sealed(body);
}

std::string some_text(Random& random) {
  constexpr std::string_view kParts[] = {
      "a", "w", "gpt2", "0", " ", ".", "/", "\n", "\"", "\\", "\t", "\x01", "γ", "😀", "nn.0"};
  std::string text;
  for (auto parts = random() % 4; parts > 0; --parts) text += one_of(kParts, random);
  return text;
}

std::size_t hand_over(std::string_view text, std::uint8_t* data, std::size_t most) {
  const std::size_t size = std::min(text.size(), most);
  std::copy_n(text.begin(), size, data);
  return size;
}

}  // namespace norma::fuzz
