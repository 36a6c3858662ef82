// The text that the demo trains on.
#pragma once

#include <string>
#include <string_view>

#include "norma/fetch/tar.h"

namespace norma::fetch {

/// Documents with a line <|endoftext|> between them: the State of the Union addresses in the order
/// of their names, which begin with the year, a line each; then the chapters of Moby-Dick, a line a
/// paragraph with empty lines between them. Lines of verse, which are indented in the book, stay
/// lines. Control characters go, and white space at the ends of lines.
std::string demo_corpus(const Members& addresses, std::string_view moby_dick);

}  // namespace norma::fetch
