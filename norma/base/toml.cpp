#include "norma/base/toml.h"

#include <algorithm>

#include <toml++/toml.h>

#include "norma/base/error.h"
#include "norma/base/text.h"

namespace norma {

namespace {

/// toml++ 3.3 misbehaves on some code points outside strings and comments, where TOML has no use
/// for them anyway.
void refuse_foreign_letters(std::string_view text, const std::string& where) {
  std::size_t line = 1;
  char quote = 0;       // the quote of the string we are in
  bool triple = false;  // and whether it is a multi-line string
  bool comment = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      ++line;
      comment = false;
      if (!triple) quote = 0;
      continue;
    }
    if (comment) continue;
    if (quote != 0) {
      if (c == '\\' && quote == '"') {
        ++i;
      } else if (c == quote) {
        const std::size_t run = std::min(text.find_first_not_of(quote, i), text.size()) - i;
        if (!triple) {
          quote = 0;
        } else if (run >= 3) {
          quote = 0;
          i += run - 1;
        }
      }
      continue;
    }
    if (c == '#') {
      comment = true;
    } else if (c == '"' || c == '\'') {
      quote = c;
      triple = text.substr(i, 3) == std::string(3, c);
      if (triple) i += 2;
    } else if (static_cast<unsigned char>(c) >= 0x80 || c == 0) {
      throw RequestError(
          say(where, ":", line, ": letters beyond ASCII belong in quotes or comments."));
    }
  }
}

struct Flattener {
  std::string where;
  std::vector<std::pair<std::uint32_t, Settings::Entry>> found;  // line, entry

  [[noreturn]] void refuse(const toml::node& node, const std::string& key, const char* why) const {
    throw RequestError(say(where, ":", node.source().begin.line, ": ", key, " ", why, "."));
  }

  void add(const toml::node& node, const std::string& key, Settings::Value value) {
    const auto line = node.source().begin.line;
    found.push_back({line, {key, std::move(value), say(where, ":", line)}});
  }

  void walk(const toml::table& table, const std::string& prefix) {
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      if (name.empty() || name.find('.') != std::string::npos) {
        refuse(node, say('"', name, '"'), "is not a name: keys are words without points");
      }
      visit(node, prefix.empty() ? name : say(prefix, ".", name));
    }
  }

  void visit(const toml::node& node, const std::string& key) {
    if (const auto* table = node.as_table()) return walk(*table, key);
    if (const auto* array = node.as_array()) return visit_array(*array, key);
    if (const auto* text = node.as_string()) return add(node, key, text->get());
    if (const auto* number = node.as_integer()) return add(node, key, Index{number->get()});
    if (const auto* number = node.as_floating_point()) return add(node, key, number->get());
    if (const auto* truth = node.as_boolean()) return add(node, key, truth->get());
    refuse(node, key, "is a date or time, which no setting takes");
  }

  void visit_array(const toml::array& array, const std::string& key) {
    if (array.is_array_of_tables()) {
      std::size_t number = 0;
      for (const toml::node& item : array) walk(*item.as_table(), say(key, ".", number++));
      return;
    }
    std::vector<double> numbers;
    for (const toml::node& item : array) {
      const auto number = item.value<double>();
      if (!number) refuse(array, key, "is a list of something other than numbers");
      numbers.push_back(*number);
    }
    add(array, key, std::move(numbers));
  }
};

}  // namespace

std::vector<Settings::Entry> parse_toml(std::string_view text, const std::string& where) {
  refuse_foreign_letters(text, where);
  Flattener flat{where, {}};
  try {
    flat.walk(toml::parse(text), "");
  } catch (const toml::parse_error& error) {
    throw RequestError(say(where,
                           ":",
                           error.source().begin.line,
                           ": this is not TOML: ",
                           std::string(error.description()),
                           "."));
  }
  // toml++ sorts keys by name; what a person wrote first comes first.
  std::stable_sort(flat.found.begin(), flat.found.end(), [](const auto& a, const auto& b) {
    return a.first < b.first;
  });
  std::vector<Settings::Entry> entries;
  entries.reserve(flat.found.size());
  for (auto& [line, entry] : flat.found) entries.push_back(std::move(entry));
  return entries;
}

}  // namespace norma
