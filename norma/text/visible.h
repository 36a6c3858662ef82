// Bytes as a person may look at them.
#pragma once

#include <string>
#include <string_view>

namespace norma::text {

/// UTF-8 on one line that cannot drive a terminal: control characters, characters that turn the
/// direction of writing, and bytes that are no UTF-8 are shown as \n, \t, \x1b, \u{202e}; a
/// backslash is doubled.
std::string visible(std::string_view bytes);

}  // namespace norma::text
