#include "norma/base/read_fields.h"

#include <algorithm>

namespace norma {

namespace {

std::string range_text(Range range) {
  if (std::isinf(range.most)) return say("at least ", range.least);
  if (std::isinf(range.least)) return say("at most ", range.most);
  return say("between ", range.least, " and ", range.most);
}

}  // namespace

void SettingsReader::refuse(const Settings::Entry& entry,
                            const std::string& wanted,
                            const std::string& near) {
  throw RequestError(say(text_start(entry.key),
                         " must be ",
                         wanted,
                         ", got ",
                         text_start(to_toml(entry.value)),
                         " (",
                         entry.origin,
                         ").",
                         near.empty() ? "" : say(" Did you mean ", near, "?")));
}

void SettingsReader::refuse_word(const Settings::Entry& entry,
                                 const std::vector<std::string>& words) {
  std::string list;
  for (std::size_t i = 0; i < words.size(); ++i) {
    list += say(i == 0 ? "" : i + 1 == words.size() ? " or " : ", ", words[i]);
  }
  const auto* text = std::get_if<std::string>(&entry.value);
  const std::string near = text == nullptr ? "" : nearest_word(*text, words);
  refuse(entry, list, near);
}

double SettingsReader::number(const Settings::Entry& entry, std::string_view wanted, Range range) {
  double value = NAN;
  if (const auto* real = std::get_if<double>(&entry.value)) value = *real;
  if (const auto* whole = std::get_if<Index>(&entry.value)) value = static_cast<double>(*whole);
  const bool limited = !std::isinf(range.least) || !std::isinf(range.most);
  const std::string text = limited ? say(wanted, " ", range_text(range)) : std::string(wanted);
  if (!std::isfinite(value) || value < range.least || value > range.most) refuse(entry, text);
  return value;
}

void SettingsReader::convert(const Settings::Entry& entry, bool& value, Range) {
  const auto* truth = std::get_if<bool>(&entry.value);
  if (truth == nullptr) refuse(entry, "true or false");
  value = *truth;
}

void SettingsReader::convert(const Settings::Entry& entry, Index& value, Range range) {
  // Beyond 2^53 a double no longer holds every whole number.
  constexpr double kLargest = 9007199254740992.0;
  const Range limits{std::max(range.least, -kLargest), std::min(range.most, kLargest)};
  const double read = number(entry, "a whole number", limits);
  if (read != std::floor(read)) refuse(entry, "a whole number");
  value = static_cast<Index>(read);
}

void SettingsReader::convert(const Settings::Entry& entry, double& value, Range range) {
  value = number(entry, "a number", range);
}

void SettingsReader::convert(const Settings::Entry& entry, std::string& value, Range) {
  const auto* text = std::get_if<std::string>(&entry.value);
  if (text == nullptr) refuse(entry, "text in quotes");
  value = *text;
}

void SettingsReader::convert(const Settings::Entry& entry,
                             std::vector<double>& value,
                             Range range) {
  const auto* list = std::get_if<std::vector<double>>(&entry.value);
  if (list == nullptr) refuse(entry, "a list of numbers");
  for (const double item : *list) {
    if (!(item >= range.least && item <= range.most)) {
      refuse(entry, say("a list of numbers, each ", range_text(range)));
    }
  }
  value = *list;
}

void SettingsReader::convert(const Settings::Entry& entry, Formula& value, Range) {
  if (const auto* text = std::get_if<std::string>(&entry.value)) {
    value.text = *text;
  } else if (std::holds_alternative<double>(entry.value) ||
             std::holds_alternative<Index>(entry.value)) {
    value.text = to_toml(entry.value);
  } else {
    refuse(entry, "a number or a formula in quotes");
  }
}

const Settings::Entry* SettingsReader::know(const std::string& key) {
  known_.push_back(key);
  const Settings::Entry* entry = settings_.find(key);
  if (entry != nullptr) {
    is_known_[static_cast<std::size_t>(entry - settings_.entries().data())] = true;
  }
  return entry;
}

void SettingsReader::refuse_unknown() const {
  for (std::size_t i = 0; i < is_known_.size(); ++i) {
    if (is_known_[i]) continue;
    const Settings::Entry& entry = settings_.entries()[i];
    const std::string near = nearest_word(entry.key, known_);
    throw RequestError(say("there is no setting ",
                           text_start(entry.key),
                           " (",
                           entry.origin,
                           ").",
                           near.empty() ? "" : say(" Did you mean ", near, "?")));
  }
}

}  // namespace norma
