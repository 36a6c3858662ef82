// libFuzzer target of recipes: TOML, settings, schemes. What is accepted must be written and read
// back the same. The mutator works on lines, with keys and values from the declared fields.
#include <algorithm>
#include <cmath>

#include "fuzz/mutate.h"
#include "fuzz/target.h"

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/nn/catalogue.h"
#include "norma/train/recipe.h"

namespace norma {
namespace {

using fuzz::complain;
using fuzz::one_in;
using fuzz::one_of;
using fuzz::Random;

/// What holds of every recipe that is accepted.
void check_accepted(const Recipe& recipe) {
  const Settings before = used_settings(recipe);
  const Recipe again = read_recipe(Settings::from_toml(recipe_text(recipe), "again.toml"));
  const Settings after = used_settings(again);
  if (before.entries().size() != after.entries().size()) {
    complain("a recipe has another number of settings when it is read back");
  }
  for (const Settings::Entry& entry : before.entries()) {
    const Settings::Entry* same = after.find(entry.key);
    if (same == nullptr || same->value != entry.value) {
      complain(say(entry.key, " changed on the way through recipe.toml"));
    }
  }
}

/// A declared field: its key, and values that it may take.
struct Field {
  std::string key;
  std::vector<std::string> values;
};

std::vector<std::string> numbers_in(Range range, bool whole) {
  std::vector<std::string> values;
  for (const double value : {range.least, range.most, 0.0, 1.0, 2.0, 8.0, 0.5, 1e-3}) {
    const bool fits = std::isfinite(value) && value >= range.least && value <= range.most;
    if (!fits || (whole && value != std::floor(value))) continue;
    values.push_back(to_toml(whole ? Settings::Value(static_cast<Index>(value)) : value));
  }
  return values;
}

std::vector<std::string> values_of(bool, Range) { return {"true", "false"}; }
std::vector<std::string> values_of(Index, Range range) { return numbers_in(range, true); }
std::vector<std::string> values_of(double, Range range) { return numbers_in(range, false); }
std::vector<std::string> values_of(const std::string&, Range) {
  return {"\"\"", "\"cpu\"", R"("a\n\r\t\u0001\"\\ ü")", "'''x\ny'''"};
}
std::vector<std::string> values_of(const Formula&, Range) {
  return {"1", "0.5", "\"1/sqrt(d)\"", "\"L\"", "\"(2*L)^(1/4)\"", "\"1/0\"", "\"(\""};
}
template <class E>
requires std::is_enum_v<E> std::vector<std::string> values_of(E, Range) {
  std::vector<std::string> values;
  values.reserve(Words<E>::kAll.size());
  for (const auto& [word, meaning] : Words<E>::kAll) values.push_back(say("\"", word, "\""));
  return values;
}

template <class Spec>
void add_fields(std::vector<Field>& fields, const std::string& table) {
  Spec spec;
  spec.fields([&](std::string_view name, auto& value, std::string_view, Range range = {}) {
    fields.push_back({say(table, ".", name), values_of(value, range)});
  });
}

using Fields = std::vector<Field>;

/// One list per table, so that every table is chosen as often as the others.
std::vector<Fields> declared_fields() {
  std::vector<Fields> tables(8);
  add_fields<ModelSpec>(tables[0], "model");
  add_fields<OptimSpec>(tables[1], "optim");
  add_fields<ScheduleSpec>(tables[2], "schedule");
  add_fields<DataSpec>(tables[2], "data");
  add_fields<TrainSpec>(tables[3], "train");
  add_fields<AttentionRule>(tables[4], "scheme.attention");
  add_fields<ScaleRule>(tables[4], "scheme.scales");
  add_fields<WeightRules>(tables[4], "scheme.weights");
  add_fields<DecayRules>(tables[4], "scheme.decay");
  add_fields<ResidualRule>(tables[4], "scheme.residual.attn");
  add_fields<ResidualRule>(tables[4], "scheme.residual");
  tables[4].push_back({"scheme.init", values_of(InitRule::gpt2, {})});
  for (const auto& [word, site] : Words<Site>::kAll) {
    add_fields<Slot>(tables[5], say("scheme.", word));
    tables[5].push_back({say("scheme.", word), values_of(NormKind::none, {})});
  }
  Field base{"scheme.base", {}};
  for (const std::string& name : scheme_names()) base.values.push_back(say("\"", name, "\""));
  tables[6] = {base};
  tables[7] = {{"optim.name", values_of(OptimName::adamw, {})}};
  for (const auto& [word, name] : Words<OptimName>::kAll) {
    tables[7].push_back({say("optim.", word, ".lr"), {"0.1", "1e-3"}});
  }
  return tables;
}

struct Line {
  std::string key;
  std::string value;
  std::string text() const { return say(key, " = ", value, "\n"); }
};

/// A line that sets a declared field, most of the time to a value that it may take.
Line some_line(Random& random) {
  static const std::vector<Fields> kTables = declared_fields();
  constexpr std::string_view kOdd[] = {"nan",
                                       "-inf",
                                       "1e400",
                                       "9223372036854775807",
                                       "-1",
                                       "[1, 2.5]",
                                       "[]",
                                       "{}",
                                       "1979-05-27",
                                       "\"\\u0000\"",
                                       "[[1]]",
                                       "0x7f",
                                       "\"\""};
  const Field& field = one_of(one_of(kTables, random), random);
  const bool odd = one_in(random, 12) || field.values.empty();
  return {field.key, odd ? std::string(one_of(kOdd, random)) : one_of(field.values, random)};
}

/// Puts a line in front, or in the place of one with the same key.
void set_line(std::string& text, const Line& line) {
  const std::string start = say(line.key, " = ");
  const std::size_t inside = text.find(say("\n", start));
  const std::size_t at = text.starts_with(start) ? 0 : inside + 1;
  if (at == 0 && !text.starts_with(start)) {
    text.insert(0, line.text());
  } else {
    text.replace(at, std::min(text.find('\n', at), text.size() - 1) + 1 - at, line.text());
  }
}

/// Arrays of tables come last: what follows one belongs to it.
std::string some_layers(Random& random) {
  std::string text;
  for (auto count = random() % 3; count > 0; --count) {
    text += say("[[scheme.layers]]\nfrom = ", random() % 3, "\nto = \"L/2\"\n");
    const auto& [word, site] = one_of(Words<Site>::kAll, random);
    text += say(word, " = ", one_of(values_of(NormKind::none, {}), random), "\n");
  }
  return text;
}

std::string sound_recipe(Random& random) {
  std::string text = one_in(random, 4) ? some_layers(random) : "";
  for (auto count = random() % 4; count > 0; --count) set_line(text, some_line(random));
  return text;
}

/// Drops or doubles a line, or sets a field.
void change_line(std::string& text, Random& random) {
  const std::size_t at = text.empty() ? 0 : random() % text.size();
  const std::size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
  const std::size_t end = std::min(text.find('\n', begin), text.size());
  const auto choice = random() % 10;
  if (choice == 0) text.insert(begin, text.substr(begin, end - begin) + "\n");
  if (choice <= 4 && choice > 0) text.erase(begin, end - begin + 1);
  if (choice == 5) text.replace(begin, end - begin, some_line(random).text());
  if (choice > 5) set_line(text, some_line(random));
}

}  // namespace
}  // namespace norma

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace norma;  // NOLINT(google-build-using-namespace)
  static fuzz::Counts counts;
  ++counts.inputs;
  Recipe recipe;
  try {
    recipe = read_recipe(Settings::from_toml(fuzz::text_of(data, size), "x.toml"));
  } catch (const RequestError&) {
    return 0;
  }
  ++counts.accepted;
  // Reading back costs as much as several recipes, so a quarter is, by size: an input always or
  // never.
  if (size % 4 != 0) return 0;
  try {
    check_accepted(recipe);
  } catch (const Error& error) {
    complain(error.what());
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data,
                                               std::size_t size,
                                               std::size_t most,
                                               unsigned seed) {
  using namespace norma;  // NOLINT(google-build-using-namespace)
  Random random(seed);
  const auto choice = random() % 8;
  if (choice == 0) return LLVMFuzzerMutate(data, size, most);
  if (choice <= 3) return fuzz::hand_over(sound_recipe(random), data, most);
  std::string text(fuzz::text_of(data, size));
  change_line(text, random);
  return fuzz::hand_over(text, data, most);
}
