#include "norma/text/unicode.h"

#include <map>
#include <memory>
#include <string>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "norma/base/error.h"
#include "norma/base/text.h"

namespace norma::text {

namespace {

constexpr char32_t kCharacters = 0x110000;

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

/// A compiled pattern and room for its matches.
class Pattern {
 public:
  explicit Pattern(const std::string& pattern) {
    int error = 0;
    PCRE2_SIZE at = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()),
                              pattern.size(),
                              PCRE2_UTF | PCRE2_UCP,
                              &error,
                              &at,
                              nullptr));
    if (!code_) {
      throw Error(say("PCRE2 refuses the pattern ",
                      pattern,
                      " at character ",
                      at,
                      " (error ",
                      error,
                      "); version 10.40 or newer is needed."));
    }
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // without a JIT the interpreter matches
    data_.reset(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
    if (!data_) throw Error("PCRE2 got no memory for its matches.");
  }

  /// found(begin, end) for every match, from left to right.
  template <class Found>
  void for_each(std::string_view text, Found&& found) {
    std::size_t at = 0;
    std::uint32_t options = 0;
    while (at < text.size()) {
      const int count = pcre2_match(code_.get(),
                                    reinterpret_cast<PCRE2_SPTR>(text.data()),
                                    text.size(),
                                    at,
                                    options,
                                    data_.get(),
                                    nullptr);
      if (count == PCRE2_ERROR_NOMATCH) return;
      if (count < 0) throw Error(say("PCRE2 cannot match the text (error ", count, ")."));
      const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data_.get());
      found(ends[0], ends[1]);
      at = ends[1];
      options = PCRE2_NO_UTF_CHECK;  // the first match has checked the whole text
    }
  }

 private:
  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_data, Free> data_;
};

void append_utf8(std::string& text, char32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
    return;
  }
  const int tails = c < 0x800 ? 1 : (c < 0x10000 ? 2 : 3);
  constexpr std::array<unsigned, 4> kHeads = {0, 0xC0, 0xE0, 0xF0};
  text += static_cast<char>(kHeads[tails] | (c >> (6 * tails)));
  for (int i = tails - 1; i >= 0; --i) text += static_cast<char>(0x80U | ((c >> (6 * i)) & 0x3FU));
}

/// kWordPattern with White_Space written out.
std::string pattern_for_pcre2() {
  std::string pattern(kWordPattern);
  const auto replace = [&pattern](std::string_view from, std::string_view to) {
    for (std::size_t at = 0; (at = pattern.find(from, at)) != std::string::npos; at += to.size()) {
      pattern.replace(at, from.size(), to);
    }
  };
  replace("\\s", "\\p{White_Space}");
  replace("\\S", "\\P{White_Space}");
  return pattern;
}

}  // namespace

UnicodeClasses::UnicodeClasses() {
  std::string all;
  std::vector<std::uint32_t> begins(kCharacters);
  for (char32_t c = 0; c < kCharacters; ++c) {
    begins[c] = static_cast<std::uint32_t>(all.size());
    if (c < 0xD800 || c > 0xDFFF) append_utf8(all, c);  // surrogates are no characters of UTF-8
  }
  std::vector<CharClass> classes(kCharacters, CharClass::other);
  const auto mark = [&](const char* pattern, CharClass value) {
    char32_t c = 0;  // runs come from left to right, so one walk over the characters serves all
    Pattern(pattern).for_each(all, [&](std::size_t begin, std::size_t end) {
      while (begins[c] < begin) ++c;
      for (; c < kCharacters && begins[c] < end; ++c) classes[c] = value;
    });
  };
  mark("\\p{L}+", CharClass::letter);
  mark("\\p{N}+", CharClass::number);
  mark("\\p{White_Space}+", CharClass::space);

  std::map<Page, std::uint16_t> known;
  for (std::size_t i = 0; i < page_of_.size(); ++i) {
    Page page;
    for (std::size_t k = 0; k < page.size(); ++k) page[k] = classes[i * page.size() + k];
    const auto [where, fresh] = known.try_emplace(page, static_cast<std::uint16_t>(pages_.size()));
    if (fresh) pages_.push_back(page);
    page_of_[i] = where->second;
  }
}

const UnicodeClasses& UnicodeClasses::get() {
  static const UnicodeClasses kClasses;
  return kClasses;
}

std::vector<std::size_t> split_by_pattern(std::string_view utf8) {
  Pattern pattern(pattern_for_pcre2());
  std::vector<std::size_t> ends;
  pattern.for_each(utf8, [&](std::size_t, std::size_t end) { ends.push_back(end); });
  return ends;
}

}  // namespace norma::text
