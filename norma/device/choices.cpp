#include "norma/device/choices.h"

#include <algorithm>
#include <map>

namespace norma::device {

namespace {

std::map<std::string, std::string>& known() {
  static std::map<std::string, std::string> choices;
  return choices;
}

}  // namespace

std::optional<std::string> choice(const std::string& name) {
  const auto at = known().find(name);
  if (at == known().end()) return std::nullopt;
  return at->second;
}

void choose(const std::string& name, const std::string& what) { known()[name] = what; }

std::string choices_text() {
  std::string text;
  for (const auto& [name, what] : known()) text += name + '\t' + what + '\n';
  return text;
}

void add_choices(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos || line.find('\t', tab + 1) != std::string_view::npos)
      continue;
    known().try_emplace(std::string(line.substr(0, tab)), line.substr(tab + 1));
  }
}

}  // namespace norma::device
