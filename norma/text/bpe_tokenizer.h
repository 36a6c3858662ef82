// Byte-pair encoding as GPT-2 does it: bytes are cut into words (norma/text/words.h), and in each
// word neighbours are merged in the order of the merges.
#pragma once

#include <array>
#include <memory>
#include <mutex>

#include "norma/text/bpe_model.h"
#include "norma/text/pair_table.h"
#include "norma/text/words.h"

namespace norma::text {

class BpeTokenizer final : public Tokenizer {
 public:
  /// The model comes from a reader or a trainer, which have checked it.
  explicit BpeTokenizer(BpeModel model);
  ~BpeTokenizer() override;

  const BpeModel& model() const { return model_; }

  std::string_view name() const override { return model_.name; }
  Id vocab_size() const override { return static_cast<Id>(model_.pieces.size()); }
  const std::vector<SpecialToken>& special_tokens() const override { return model_.specials; }
  std::string fingerprint() const override { return fingerprint_; }
  std::string json() const override;
  void encode_into(std::string_view bytes, Specials specials, std::vector<Id>& ids) const override;
  void decode_into(std::span<const Id> ids, std::string& bytes) const override;

 private:
  struct Scratch;  // what a thread needs while it encodes: a word cache and a merger
  class Lease;     // takes a Scratch from the pool and gives it back

  void encode_part(std::string_view bytes, Specials specials, std::vector<Id>& ids) const;
  void encode_words(std::string_view bytes, Scratch& scratch, std::vector<Id>& ids) const;
  const SpecialToken* special_at(std::string_view bytes, std::size_t at) const;

  BpeModel model_;
  PairTable pairs_;
  std::array<Id, 256> byte_ids_{};
  WordScanner scanner_;
  std::array<std::vector<const SpecialToken*>, 256>
      specials_by_byte_;  // of a first byte, longest first
  std::string fingerprint_;
  // Caches stay warm from call to call: a call borrows one that nobody uses.
  mutable std::mutex pool_lock_;
  mutable std::vector<std::unique_ptr<Scratch>> pool_;
};

}  // namespace norma::text
