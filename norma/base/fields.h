// Settings are declared once. A struct of settings has
//
//   template <class F>
//   void fields(F&& f) {
//     f("lr", lr, "peak learning rate", Range{0, 100});
//     f("name", name, "which optimizer");
//   }
//
// and parsing, the resolved dump, help and docs all come from that one function. A field is a bool,
// an Index, a double, a std::string, a std::vector<double>, or an enum that has Words.
#pragma once

#include <array>
#include <limits>
#include <string_view>
#include <utility>

namespace norma {

/// The values a number may take, both ends included; errors say it.
struct Range {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
};

/// The words of an enum; specialize with `static constexpr std::array<std::pair<std::string_view,
/// E>, N> kAll`.
template <class E>
struct Words;

template <class E>
constexpr std::string_view word_of(E value) {
  for (const auto& [word, meaning] : Words<E>::kAll) {
    if (meaning == value) return word;
  }
  return "?";
}

}  // namespace norma
