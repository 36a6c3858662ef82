#include "norma/text/blocks.h"

#include "norma/io/byte_source.h"
#include "norma/text/words.h"

namespace norma::text {

void for_each_block(const std::string& path,
                    std::size_t block_bytes,
                    const std::function<void(std::string_view)>& take) {
  const auto source = io::open_source(io::real_file_system(), path);
  std::string block;
  std::size_t wanted = block_bytes;
  bool more = true;
  while (more) {
    const std::size_t before = block.size();
    block.resize(wanted);
    const std::size_t got =
        io::read_fully(*source, std::as_writable_bytes(std::span(block)).subspan(before));
    block.resize(before + got);
    more = block.size() == wanted;
    const std::size_t cut = more ? last_cut(block) : block.size();
    if (cut == 0 && more) {  // no place to cut yet: twice as much, so that looking stays linear
      wanted *= 2;
      continue;
    }
    take(std::string_view(block).substr(0, cut));
    block.erase(0, cut);
    wanted = block.size() + block_bytes;
  }
}

}  // namespace norma::text
