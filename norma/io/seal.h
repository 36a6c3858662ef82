// JSON files of ours end with a digest of their own text, so that a flipped bit in them is found as
// well as one in the files they speak of.
#pragma once

#include <string>
#include <string_view>

namespace norma::io {

/// `body`, an object without its closing brace, with `"digest"` as its last member.
std::string sealed(std::string body);
/// Throws an Error that begins with `path` for a text that does not end as sealed() wrote it.
void require_seal(std::string_view path, std::string_view text);

}  // namespace norma::io
