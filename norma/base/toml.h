// The one page that knows toml++.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "norma/base/settings.h"

namespace norma {

/// The values of a TOML text with dotted keys, in the order of their lines. Dates, times and arrays
/// of anything but numbers or tables are refused.
std::vector<Settings::Entry> parse_toml(std::string_view text, const std::string& where);

}  // namespace norma
