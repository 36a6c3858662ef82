#include "norma/device/choices.h"

#include <algorithm>
#include <map>

namespace norma::device {

namespace {

using Choices = std::map<std::string, std::string>;

Choices& known() {
  static Choices choices;
  return choices;
}

std::size_t& made() {
  static std::size_t count = 0;
  return count;
}

/// What is there already stays, lines of another form are left out.
void add_lines(std::string_view text, Choices& to) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos || line.find('\t', tab + 1) != std::string_view::npos)
      continue;
    to.try_emplace(std::string(line.substr(0, tab)), line.substr(tab + 1));
  }
}

std::string text_of(const Choices& choices) {
  std::string text;
  for (const auto& [name, what] : choices) text += name + '\t' + what + '\n';
  return text;
}

}  // namespace

std::optional<std::string> choice(const std::string& name) {
  const auto at = known().find(name);
  if (at == known().end()) return std::nullopt;
  return at->second;
}

void choose(const std::string& name, const std::string& what) {
  known()[name] = what;
  ++made();
}

std::size_t choices_made() { return made(); }

std::string choices_text() { return text_of(known()); }

std::string choices_with(std::string_view text) {
  Choices all;
  add_lines(text, all);
  all.insert(known().begin(), known().end());
  return text_of(all);
}

void add_choices(std::string_view text) {
  const std::size_t before = known().size();
  add_lines(text, known());
  made() += known().size() - before;
}

}  // namespace norma::device
