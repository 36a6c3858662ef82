// Settings from files and from the command line, as one list of dotted keys that know where they
// came from: model.width = 768 (recipes/gpt2-s.toml:4).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "norma/base/types.h"

namespace norma {

/// The origin of what was set by key=value.
inline constexpr std::string_view kCommandLine = "command line";

class Settings {
 public:
  using Value = std::variant<bool, Index, double, std::string, std::vector<double>>;
  struct Entry {
    std::string key;
    Value value;
    std::string origin;  // "recipes/gpt2-s.toml:4", "command line", "scheme ngpt"
  };

  /// Tables become dotted keys; arrays of tables are numbered (layers.0.from). Throws RequestError
  /// with file and line when the text is not TOML.
  static Settings from_toml(std::string_view text, const std::string& where);
  /// The same for a file of at most kLargestFile bytes.
  static Settings from_file(const std::string& path);
  static constexpr std::size_t kLargestFile = std::size_t{1} << 20;

  /// Sets or replaces. A key that is also the table of another (q beside q.norm) is kept: what it
  /// means is the reader's business.
  void set(Entry entry);
  /// Sets "optim.lr=1e-3". The value is TOML; a word without quotes is text.
  void set_assignment(const std::string& assignment);
  /// Removes every key below `table` ("q" removes q.norm and q.eps, not q).
  void remove_below(std::string_view table);

  const Entry* find(std::string_view key) const;
  /// In the order in which keys were first set.
  const std::vector<Entry>& entries() const { return entries_; }
  /// The entries below a table, without its name.
  Settings below(std::string_view table) const;

 private:
  using Places = std::vector<std::uint32_t>;  // indices into entries_
  /// The first place whose key is not before `key`.
  Places::const_iterator first_from(std::string_view key) const;
  /// The places of the keys below a table, in the order of the keys.
  std::span<const std::uint32_t> places_below(std::string_view prefix) const;

  std::vector<Entry> entries_;
  Places by_key_;  // every entry, in the order of the keys: a recipe is searched hundreds of times
};

enum class Origins : std::uint8_t { hidden, shown };
/// The settings as TOML that reads back the same, one a line; origins as comments.
std::string toml_text(const Settings& settings, Origins origins);

/// As it would be written in TOML; numbers in the shortest form that reads back the same.
std::string to_toml(const Settings::Value& value);

}  // namespace norma
