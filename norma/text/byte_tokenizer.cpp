#include "norma/text/byte_tokenizer.h"

#include "norma/text/bpe_files.h"

namespace norma::text {

std::string ByteTokenizer::fingerprint() const { return fingerprint_of(byte_model()); }
std::string ByteTokenizer::json() const { return tokenizer_json(byte_model()); }

void ByteTokenizer::encode_into(std::string_view bytes,
                                Specials /*specials*/,
                                std::vector<Id>& ids) const {
  ids.reserve(ids.size() + bytes.size());
  for (const char c : bytes) ids.push_back(static_cast<std::uint8_t>(c));
}

void ByteTokenizer::decode_into(std::span<const Id> ids, std::string& bytes) const {
  require_known(ids);
  bytes.reserve(bytes.size() + ids.size());
  for (const Id id : ids) bytes += static_cast<char>(id);
}

}  // namespace norma::text
