// Small formulas in settings: "1/sqrt(d)", "(2*L)^(1/4)". A scheme names its constants as its paper
// does, and the value follows from the size of the model.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace norma {

/// A name and its value: {"d", 768}.
using FormulaVariable = std::pair<std::string_view, double>;

/// Numbers, names, + - * / ^, parentheses, and sqrt, ln, log2, exp, floor, min, max. Throws
/// RequestError that shows the formula when it cannot be read, names something unknown, or does not
/// give a finite number.
double evaluate_formula(std::string_view text, std::span<const FormulaVariable> variables);

/// A formula kept as it was written.
struct Formula {
  std::string text;

  Formula() = default;
  explicit Formula(std::string written) : text(std::move(written)) {}
  explicit operator bool() const { return !text.empty(); }
  double operator()(std::span<const FormulaVariable> variables) const {
    return evaluate_formula(text, variables);
  }
  friend bool operator==(const Formula&, const Formula&) = default;
};

}  // namespace norma
