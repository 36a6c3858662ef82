// 256 ids: a byte is its own id. No special tokens.
#pragma once

#include "norma/text/tokenizer.h"

namespace norma::text {

class ByteTokenizer final : public Tokenizer {
 public:
  std::string_view name() const override { return "byte"; }
  Id vocab_size() const override { return 256; }
  const std::vector<SpecialToken>& special_tokens() const override { return no_specials_; }
  std::string fingerprint() const override;
  std::string json() const override;
  void encode_into(std::string_view bytes, Specials specials, std::vector<Id>& ids) const override;
  void decode_into(std::span<const Id> ids, std::string& bytes) const override;

 private:
  std::vector<SpecialToken> no_specials_;
};

}  // namespace norma::text
