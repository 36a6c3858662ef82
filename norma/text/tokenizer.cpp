#include "norma/text/tokenizer.h"

#include "norma/base/error.h"
#include "norma/base/text.h"

namespace norma::text {

std::vector<Id> Tokenizer::encode(std::string_view bytes, Specials specials) const {
  std::vector<Id> ids;
  encode_into(bytes, specials, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const Id> ids) const {
  std::string bytes;
  decode_into(ids, bytes);
  return bytes;
}

Id Tokenizer::special_id(std::string_view text) const {
  for (const SpecialToken& special : special_tokens()) {
    if (special.text == text) return special.id;
  }
  return -1;
}

void Tokenizer::require_known(std::span<const Id> ids) const {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size()) {
      throw RequestError(say("the tokenizer ",
                             name(),
                             " has the ids 0 to ",
                             vocab_size() - 1,
                             ", but id number ",
                             i + 1,
                             " is ",
                             ids[i],
                             ". Were they made with another tokenizer?"));
    }
  }
}

}  // namespace norma::text
