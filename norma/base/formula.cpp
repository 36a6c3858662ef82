#include "norma/base/formula.h"

#include <charconv>
#include <cmath>
#include <vector>

#include "norma/base/error.h"
#include "norma/base/text.h"

namespace norma {

namespace {

constexpr std::size_t kLongest = 200;  // characters; also bounds how deep parentheses can nest

class Reader {
 public:
  Reader(std::string_view text, std::span<const FormulaVariable> variables)
      : text_(text), variables_(variables) {}

  double whole() {
    const double value = sum();
    skip_blanks();
    if (at_ != text_.size()) fail(say("does not go on after ", text_.substr(0, at_)));
    if (!std::isfinite(value)) fail("has no finite value");
    return value;
  }

 private:
  double sum() {
    double value = product();
    for (;;) {
      if (take('+')) {
        value += product();
      } else if (take('-')) {
        value -= product();
      } else {
        return value;
      }
    }
  }
  double product() {
    double value = signed_power();
    for (;;) {
      if (take('*')) {
        value *= signed_power();
      } else if (take('/')) {
        value /= signed_power();
      } else {
        return value;
      }
    }
  }
  double signed_power() { return take('-') ? -signed_power() : power(); }
  double power() {
    const double base = atom();
    return take('^') ? std::pow(base, signed_power()) : base;
  }
  double atom() {
    skip_blanks();
    if (take('(')) {
      const double value = sum();
      want(')');
      return value;
    }
    if (at_ < text_.size() && (is_digit(text_[at_]) || text_[at_] == '.')) return number();
    const std::string_view name = word();
    if (name.empty()) fail("breaks off where a number or a name was expected");
    if (take('(')) return call(name);
    std::vector<std::string> known;
    for (const auto& [variable, value] : variables_) {
      if (variable == name) return value;
      known.emplace_back(variable);
    }
    const std::string near = nearest_word(name, known);
    fail(say(
        "names ", name, ", which is not known here", near.empty() ? "" : "; did you mean ", near));
  }
  double call(std::string_view name) {
    const double first = sum();
    if (name == "min" || name == "max") {
      want(',');
      const double second = sum();
      want(')');
      return name == "min" ? std::fmin(first, second) : std::fmax(first, second);
    }
    want(')');
    if (name == "sqrt") return std::sqrt(first);
    if (name == "ln") return std::log(first);
    if (name == "log2") return std::log2(first);
    if (name == "exp") return std::exp(first);
    if (name == "floor") return std::floor(first);
    fail(say("calls ", name, "; there are sqrt, ln, log2, exp, floor, min and max"));
  }
  double number() {
    double value = 0;
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("holds a number that cannot be read");
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }
  std::string_view word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || (at_ > begin && is_digit(text_[at_])))) {
      ++at_;
    }
    return text_.substr(begin, at_ - begin);
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  }
  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void want(char c) {
    if (!take(c)) fail(say("lacks a ", std::string(1, c)));
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw RequestError(say("the formula \"", text_, "\" ", why, "."));
  }

  std::string_view text_;
  std::span<const FormulaVariable> variables_;
  std::size_t at_ = 0;
};

}  // namespace

double evaluate_formula(std::string_view text, std::span<const FormulaVariable> variables) {
  if (text.size() > kLongest) {
    throw RequestError(
        say("a formula has at most ", kLongest, " characters, got ", text.size(), "."));
  }
  return Reader(text, variables).whole();
}

}  // namespace norma
