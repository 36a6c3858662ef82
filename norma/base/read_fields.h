// From settings to structs and back, through the one function that declares them (fields.h).
#pragma once

#include <cmath>
#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "norma/base/error.h"
#include "norma/base/fields.h"
#include "norma/base/formula.h"
#include "norma/base/settings.h"
#include "norma/base/text.h"

namespace norma {

/// Reads structs out of settings and remembers which keys anybody knows.
class SettingsReader {
 public:
  explicit SettingsReader(const Settings& settings)
      : settings_(settings), is_known_(settings.entries().size(), false) {}

  /// Sets the fields that are given below `table`; the others keep their defaults.
  template <class S>
  void read(const std::string& table, S& spec) {
    spec.fields([&](std::string_view name, auto& value, std::string_view, Range range = {}) {
      read_one(table.empty() ? std::string(name) : say(table, ".", name), value, range);
    });
  }
  template <class T>
  void read_one(const std::string& key, T& value, Range range = {}) {
    if (const Settings::Entry* entry = know(key)) convert(*entry, value, range);
  }
  /// A key that is read here or elsewhere; its entry, or null.
  const Settings::Entry* know(const std::string& key);

  /// Throws when there is a key that nobody read, naming the nearest.
  void refuse_unknown() const;

 private:
  [[noreturn]] static void refuse(const Settings::Entry& entry,
                                  const std::string& wanted,
                                  const std::string& near = {});
  static double number(const Settings::Entry& entry, std::string_view wanted, Range range);

  static void convert(const Settings::Entry& entry, bool& value, Range);
  static void convert(const Settings::Entry& entry, Index& value, Range range);
  static void convert(const Settings::Entry& entry, double& value, Range range);
  static void convert(const Settings::Entry& entry, std::string& value, Range);
  static void convert(const Settings::Entry& entry, std::vector<double>& value, Range range);
  static void convert(const Settings::Entry& entry, Formula& value, Range);
  template <class E>
  requires std::is_enum_v<E>
  static void convert(const Settings::Entry& entry, E& value, Range) {
    const auto* text = std::get_if<std::string>(&entry.value);
    std::vector<std::string> words;
    for (const auto& [word, meaning] : Words<E>::kAll) {
      if (text != nullptr && word == *text) {
        value = meaning;
        return;
      }
      words.emplace_back(word);
    }
    refuse_word(entry, words);
  }
  [[noreturn]] static void refuse_word(const Settings::Entry& entry,
                                       const std::vector<std::string>& words);

  const Settings& settings_;
  std::vector<std::string> known_;  // keys, whether they are given or not
  std::vector<bool> is_known_;      // by entry
};

inline Settings::Value to_value(bool value) { return value; }
inline Settings::Value to_value(Index value) { return value; }
inline Settings::Value to_value(double value) { return value; }
inline Settings::Value to_value(const std::string& value) { return value; }
inline Settings::Value to_value(const std::vector<double>& value) { return value; }
inline Settings::Value to_value(const Formula& value) { return value.text; }
template <class E>
requires std::is_enum_v<E> Settings::Value to_value(E value) { return std::string(word_of(value)); }

/// Every field of a struct as a setting below `table`, in the order of declaration. Origins come
/// from `given`, where the field was set there; otherwise it is the default.
template <class S>
void write_fields(Settings& to, const Settings& given, const std::string& table, S& spec) {
  spec.fields([&](std::string_view name, auto& value, std::string_view, Range = {}) {
    const std::string key = say(table, ".", name);
    const Settings::Entry* entry = given.find(key);
    to.set({key, to_value(value), entry != nullptr ? entry->origin : "default"});
  });
}

}  // namespace norma
