// English text without a network: stories from a small grammar, for demos and tests where no
// corpus can be had. There is something to learn in it at every range: spelling, agreement, who is
// "she", sums that are right, where a thing was put, and who lives where in the whole corpus.
#pragma once

#include <cstdint>
#include <string>

namespace norma::fetch {

struct InventedTextSpec {
  std::uint64_t bytes = 4'000'000;  // at most; the last story ends before it
  std::uint64_t seed = 1;
};

/// Stories with a line <|endoftext|> between them: a title, then a line a paragraph with empty
/// lines between them. ASCII. The same bytes for a seed on any machine.
std::string invented_text(const InventedTextSpec& spec);

}  // namespace norma::fetch
