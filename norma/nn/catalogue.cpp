#include "norma/nn/catalogue.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/nn/scheme.h"

namespace norma {

namespace {

constexpr int kDeepestBase = 8;  // a chain of bases longer than this goes in circles

using Entry = Settings::Entry;

bool is_site(std::string_view key) {
  return std::any_of(Words<Site>::kAll.begin(), Words<Site>::kAll.end(), [&](const auto& word) {
    return word.first == key;
  });
}

/// weights = "unit" decides every class; which ones the rule is about depends on the rule.
std::vector<Entry> expand_weights(const Entry& entry, const std::string& prefix, bool hidden_only) {
  std::vector<Entry> expanded;
  const std::string rule = std::get<std::string>(entry.value);
  for (std::size_t i = 0; i < WeightRules{}.of.size(); ++i) {
    const auto kind = static_cast<ParamClass>(i);
    const bool table = kind == ParamClass::embedding || kind == ParamClass::head;
    const bool inside = is_hidden_matrix(kind);
    if (hidden_only && !inside) continue;
    const bool about = inside || (kind == ParamClass::head && rule == "weight_norm") ||
                       (table && (rule == "unit" || rule == "parametrized" || rule == "row_max"));
    expanded.push_back(
        {say(prefix, "weights.", word_of(kind)), about ? rule : std::string("free"), entry.origin});
  }
  return expanded;
}

/// The decay rules that papers share.
std::vector<Entry> expand_decay(const Entry& entry, const std::string& prefix) {
  const std::string rule = std::get<std::string>(entry.value);
  const std::vector<std::string> rules = {"nanogpt", "timm", "all_but_embeddings", "none"};
  if (std::find(rules.begin(), rules.end(), rule) == rules.end()) {
    throw RequestError(say("decay must be nanogpt, timm, all_but_embeddings or none, got \"",
                           text_start(rule),
                           "\" (",
                           entry.origin,
                           ")."));
  }
  std::vector<Entry> expanded;
  for (const auto& [word, kind] : Words<ParamClass>::kAll) {
    const bool matrix = kind <= ParamClass::patch;
    bool decays = false;
    if (rule == "nanogpt") decays = matrix;
    if (rule == "timm") decays = matrix && kind != ParamClass::position;
    if (rule == "all_but_embeddings") {
      decays = kind != ParamClass::embedding && kind != ParamClass::position;
    }
    expanded.push_back({say(prefix, "decay.", word), decays, entry.origin});
  }
  return expanded;
}

/// Writes a shorthand out: q = "rms" is q.norm = "rms"; residual = "lerp" speaks of both sublayers.
std::vector<Entry> expand(const Entry& entry) {
  std::string prefix;
  std::string key = entry.key;
  if (key.starts_with("layers.")) {
    const std::size_t end = key.find('.', 7);
    if (end == std::string::npos) return {entry};
    prefix = key.substr(0, end + 1);
    key = key.substr(end + 1);
  }
  const bool text = std::holds_alternative<std::string>(entry.value);
  if (is_site(key) && text) return {{say(prefix, key, ".norm"), entry.value, entry.origin}};
  if (key == "weights" && text) return expand_weights(entry, prefix, false);
  if (key == "weights.hidden" && text) return expand_weights(entry, prefix, true);
  if (key == "decay" && text) return expand_decay(entry, prefix);
  if (key == "residual.attn" || key == "residual.ffn") {
    return {{say(prefix, key, ".rule"), entry.value, entry.origin}};
  }
  if (key == "residual" || (key.starts_with("residual.") && !key.starts_with("residual.attn.") &&
                            !key.starts_with("residual.ffn."))) {
    const std::string rest = key == "residual" ? ".rule" : key.substr(8);
    return {{say(prefix, "residual.attn", rest), entry.value, entry.origin},
            {say(prefix, "residual.ffn", rest), entry.value, entry.origin}};
  }
  return {entry};
}

/// Whether setting this key starts a slot or a rule afresh.
bool starts_afresh(const std::string& key) {
  return key.ends_with(".norm") || (key.ends_with(".rule") && key.find("residual.") != key.npos);
}

void overlay(Settings& under, const Settings& over) {
  std::vector<Entry> expanded;
  for (const Entry& entry : over.entries()) {
    for (Entry& plain : expand(entry)) expanded.push_back(std::move(plain));
  }
  const bool has_layers = std::any_of(expanded.begin(), expanded.end(), [](const Entry& entry) {
    return entry.key.starts_with("layers.");
  });
  if (has_layers) under.remove_below("layers");
  for (const Entry& entry : expanded) {
    if (!starts_afresh(entry.key)) continue;
    under.remove_below(entry.key.substr(0, entry.key.rfind('.')));
    under.set(entry);
  }
  for (Entry& entry : expanded) {
    if (!starts_afresh(entry.key)) under.set(std::move(entry));
  }
}

/// A built-in scheme is parsed when it is first asked for: a sweep reads thousands of recipes.
Settings parsed(const BuiltinScheme& scheme) {
  static std::mutex lock;
  static std::map<std::string_view, Settings> known;
  const std::lock_guard guard(lock);
  const auto hit = known.find(scheme.name);
  if (hit != known.end()) return hit->second;
  const std::string file = say("schemes/", scheme.name, ".toml");
  return known.emplace(scheme.name, Settings::from_toml(scheme.toml, file)).first->second;
}

Settings load(const std::string& name) {
  if (name.ends_with(".toml")) {
    Settings file = Settings::from_file(name);
    const std::string stem = std::filesystem::path(name).stem().string();
    if (file.find("name") == nullptr) file.set({"name", stem, name});
    return file;
  }
  const std::string wanted = name == "dnt" ? "dnt-s5" : name;
  for (const BuiltinScheme& scheme : builtin_schemes()) {
    if (scheme.name == wanted) return parsed(scheme);
  }
  const std::string near = nearest_word(name, scheme_names());
  throw RequestError(say("there is no scheme ",
                         text_start(name),
                         ".",
                         near.empty() ? "" : say(" Did you mean ", near, "?"),
                         " See norma schemes."));
}

Settings resolve(const Settings& table, int depth) {
  if (depth > kDeepestBase) {
    throw RequestError("the bases of this scheme go in circles.");
  }
  Settings merged;
  Settings own;
  for (const Entry& entry : table.entries()) {
    if (entry.key != "base") {
      own.set(entry);
      continue;
    }
    const auto* base = std::get_if<std::string>(&entry.value);
    if (base == nullptr) {
      throw RequestError(say("base must be the name of a scheme in quotes (", entry.origin, ")."));
    }
    merged = resolve(load(*base), depth + 1);
  }
  overlay(merged, own);
  return merged;
}

}  // namespace

std::vector<std::string> scheme_names() {
  std::vector<std::string> names;
  for (const BuiltinScheme& scheme : builtin_schemes()) names.emplace_back(scheme.name);
  return names;
}

Settings scheme_settings(const std::string& name) { return resolve(load(name), 0); }

Settings scheme_settings(const Settings& table) { return resolve(table, 0); }

}  // namespace norma
