#include "norma/base/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/base/toml.h"

namespace norma {

Settings Settings::from_toml(std::string_view text, const std::string& where) {
  Settings settings;
  for (Entry& entry : parse_toml(text, where)) settings.set(std::move(entry));
  return settings;
}

Settings Settings::from_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    throw RequestError(say("there is no file ", path, "."));
  }
  const auto size = std::filesystem::file_size(path, error);
  if (error || size > kLargestFile) {
    throw RequestError(say(path, " is too large for settings: at most ", kLargestFile, " bytes."));
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw Error(say("cannot read ", path, "."));
  return from_toml(text.str(), path);
}

Settings::Places::const_iterator Settings::first_from(std::string_view key) const {
  return std::partition_point(by_key_.begin(), by_key_.end(), [&](std::uint32_t place) {
    return entries_[place].key < key;
  });
}

std::span<const std::uint32_t> Settings::places_below(std::string_view prefix) const {
  const auto first = first_from(prefix);
  const auto last = std::partition_point(first, by_key_.end(), [&](std::uint32_t place) {
    return entries_[place].key.starts_with(prefix);
  });
  return {first, last};
}

void Settings::set(Entry entry) {
  const auto at = first_from(entry.key);
  if (at != by_key_.end() && entries_[*at].key == entry.key) {
    entries_[*at] = std::move(entry);
  } else {
    by_key_.insert(at, static_cast<std::uint32_t>(entries_.size()));
    entries_.push_back(std::move(entry));
  }
}

void Settings::set_assignment(const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  const std::string key = assignment.substr(0, equals);
  const bool plain = !key.empty() && key.find_first_not_of(
                                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                         "0123456789_.-") == std::string::npos;
  if (equals == std::string::npos || !plain) {
    throw RequestError(say(
        "a setting is written key=value, like optim.lr=1e-3, got ", text_start(assignment), "."));
  }
  const std::string value = assignment.substr(equals + 1);
  if (value.empty()) throw RequestError(say("the setting ", key, " has no value."));
  const std::string where(kCommandLine);
  const auto is_word = [&] {
    const bool number_like =
        value.find_first_not_of("0123456789+-._eExXinfa") == std::string::npos &&
        (value == "inf" || value == "nan" || value.find_first_of("0123456789+-.") == 0);
    return !number_like && value != "true" && value != "false" &&
           value.find_first_of("\"'[]{}\n") == std::string::npos;
  };
  std::vector<Entry> read;
  if (is_word()) {
    read.push_back({key, value, where});
  } else {
    read = parse_toml(say(key, " = ", value), where);
  }
  for (Entry& entry : read) {
    entry.origin = where;
    set(std::move(entry));
  }
}

void Settings::remove_below(std::string_view table) {
  const std::string prefix = say(table, ".");
  if (places_below(prefix).empty()) return;
  const auto gone = [&](const Entry& entry) { return entry.key.starts_with(prefix); };
  std::erase_if(by_key_, [&](std::uint32_t place) { return gone(entries_[place]); });
  std::vector<std::uint32_t> moved;  // where an entry stands afterwards
  moved.reserve(entries_.size());
  std::uint32_t kept = 0;
  for (const Entry& entry : entries_) moved.push_back(gone(entry) ? kept : kept++);
  for (std::uint32_t& place : by_key_) place = moved[place];
  std::erase_if(entries_, gone);
}

const Settings::Entry* Settings::find(std::string_view key) const {
  const auto at = first_from(key);
  return at == by_key_.end() || entries_[*at].key != key ? nullptr : &entries_[*at];
}

Settings Settings::below(std::string_view table) const {
  const std::string prefix = say(table, ".");
  const std::span<const std::uint32_t> inside = places_below(prefix);
  Places places(inside.begin(), inside.end());
  std::sort(places.begin(), places.end());
  Settings found;
  for (const std::uint32_t place : places) {
    const Entry& entry = entries_[place];
    found.set({entry.key.substr(prefix.size()), entry.value, entry.origin});
  }
  return found;
}

namespace {

std::string shortest(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (std::isnan(value)) return "nan";
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  // TOML tells integers from other numbers by the point or the exponent.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n') {
      result += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {  // TOML takes no control characters as they are
      constexpr std::string_view kHex = "0123456789abcdef";
      result += "\\u00";
      result += kHex[byte >> 4];
      result += kHex[byte & 15];
    } else {
      result += c;
    }
  }
  return result + '"';
}

struct Writer {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(Index value) const { return std::to_string(value); }
  std::string operator()(double value) const { return shortest(value); }
  std::string operator()(const std::string& value) const { return quoted(value); }
  std::string operator()(const std::vector<double>& values) const {
    std::string text = "[";
    for (const double value : values) text += say(text.size() > 1 ? ", " : "", shortest(value));
    return text + "]";
  }
};

}  // namespace

namespace {

/// Where the number of an array of tables begins in a key: "scheme.layers.0.from" -> 14; or npos.
std::size_t table_number(const std::string& key) {
  for (std::size_t at = key.find('.'); at != std::string::npos; at = key.find('.', at + 1)) {
    const std::size_t end = key.find('.', at + 1);
    if (end == std::string::npos) break;
    const std::string part = key.substr(at + 1, end - at - 1);
    if (part.find_first_not_of("0123456789") == std::string::npos) return at + 1;
  }
  return std::string::npos;
}

}  // namespace

std::string toml_text(const Settings& settings, Origins origins) {
  const auto line = [&](const std::string& key, const Settings::Entry& entry) {
    const std::string origin = origins == Origins::shown ? say("  # ", entry.origin) : "";
    return say(key, " = ", to_toml(entry.value), origin, "\n");
  };
  std::string plain;
  // {"scheme.layers", 0} -> its lines. The place of a table is its number, so 10 comes behind 9.
  std::map<std::pair<std::string, Index>, std::string> tables;
  for (const Settings::Entry& entry : settings.entries()) {
    const std::size_t number = table_number(entry.key);
    if (number == std::string::npos) {
      plain += line(entry.key, entry);
    } else {
      const std::size_t end = entry.key.find('.', number);
      Index which = 0;
      std::from_chars(entry.key.data() + number, entry.key.data() + end, which);
      tables[{entry.key.substr(0, number - 1), which}] += line(entry.key.substr(end + 1), entry);
    }
  }
  for (const auto& [name, lines] : tables) {
    plain += say("\n[[", name.first, "]]\n", lines);
  }
  return plain;
}

std::string to_toml(const Settings::Value& value) { return std::visit(Writer{}, value); }

}  // namespace norma
