// The thin layer between tokenizers and the disk.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace norma::text {

/// All of a regular file of at most `limit` bytes. Errors are sentences that begin with the path.
std::string read_whole(const std::string& path, std::size_t limit);

/// Gives the bytes of a file ("-": standard input), in order, in blocks that end where text may be
/// cut (norma/text/words.h), so that blocks encoded one by one are the file encoded at once. A
/// text without such places comes as one block.
void for_each_block(const std::string& path,
                    std::size_t block_bytes,
                    const std::function<void(std::string_view)>& take);

/// The file appears whole or not at all: written beside its place, made durable, renamed.
void write_whole(const std::string& path, std::string_view contents);

}  // namespace norma::text
