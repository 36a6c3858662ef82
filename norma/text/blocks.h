// Long texts in pieces.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace norma::text {

/// Gives the bytes of a file ("-": standard input; compressed ones unpacked), in order, in blocks
/// that end where text may be cut (norma/text/words.h), so that blocks encoded one by one are the
/// file encoded at once. A text without such places comes as one block.
void for_each_block(const std::string& path,
                    std::size_t block_bytes,
                    const std::function<void(std::string_view)>& take);

}  // namespace norma::text
