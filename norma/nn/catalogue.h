// The schemes that come with the program, and how a recipe builds its own on top of one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "norma/base/settings.h"

namespace norma {

struct BuiltinScheme {
  std::string_view name;
  std::string_view toml;
};

/// schemes/*.toml as they were when the program was built, sorted by name.
std::span<const BuiltinScheme> builtin_schemes();
std::vector<std::string> scheme_names();

/// All settings of a scheme, its bases included, with every shorthand written out. `name` is a
/// built-in name ("dnt" means dnt-s5) or a file ending in .toml.
Settings scheme_settings(const std::string& name);

/// The same for a table that may name a base and change single keys: the [scheme] of a recipe.
Settings scheme_settings(const Settings& table);

}  // namespace norma
