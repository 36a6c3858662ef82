// From bytes to ids and back. Any bytes can be encoded, also those that are no UTF-8, and decoding
// what was encoded gives them back exactly.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace norma::text {

using Id = std::int32_t;

/// A token that stands for no text of a document, like <|endoftext|>.
struct SpecialToken {
  std::string text;
  Id id = 0;
  friend bool operator==(const SpecialToken&, const SpecialToken&) = default;
};

/// What the text of a special token means inside the bytes to encode.
enum class Specials : std::uint8_t {
  as_text,     // nothing: it is encoded like any other text, as untrusted documents need it
  recognized,  // its id; where several begin at one place, the longest
};

/// Const methods may be called from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string_view name() const = 0;
  virtual Id vocab_size() const = 0;  // ids are 0 … vocab_size - 1
  virtual const std::vector<SpecialToken>& special_tokens() const = 0;
  /// 16 hexadecimal digits; equal for tokenizers that encode and decode alike.
  virtual std::string fingerprint() const = 0;

  /// Itself as Hugging Face's tokenizer.json, which load_tokenizer() reads back.
  virtual std::string json() const = 0;

  /// Appends the ids of `bytes`. Long inputs are spread over thread_count() threads; the ids do not
  /// depend on it.
  virtual void encode_into(std::string_view bytes,
                           Specials specials,
                           std::vector<Id>& ids) const = 0;
  /// Appends the bytes of any ids in any order: they need not be UTF-8 together. An id beyond the
  /// vocabulary is a RequestError, and nothing is appended.
  virtual void decode_into(std::span<const Id> ids, std::string& bytes) const = 0;

  std::vector<Id> encode(std::string_view bytes, Specials specials = Specials::as_text) const;
  std::string decode(std::span<const Id> ids) const;
  /// The id of a special token, or -1.
  Id special_id(std::string_view text) const;

 protected:
  /// Throws the RequestError of decode_into.
  void require_known(std::span<const Id> ids) const;
};

}  // namespace norma::text
