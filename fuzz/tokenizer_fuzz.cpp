// libFuzzer target of the tokenizer files. The first byte says which: tokenizer.json, merges alone,
// or vocab.json and merges.txt with a zero byte between them. What is accepted must be written and
// read back the same, and must tokenize without loss.
#include "fuzz/target.h"

#include "norma/base/error.h"
#include "norma/text/bpe_files.h"
#include "norma/text/bpe_tokenizer.h"

namespace {

norma::text::BpeModel read(std::uint8_t kind, std::string_view text) {
  using namespace norma::text;  // NOLINT(google-build-using-namespace)
  if (kind % 3 == 0) return read_tokenizer_json("x", text);
  if (kind % 3 == 1) return read_merges("x", text);
  const std::size_t middle = std::min(text.find('\0'), text.size());
  const std::string_view merges = text.substr(std::min(middle + 1, text.size()));
  return read_vocab_and_merges({"x", text.substr(0, middle)}, {"y", merges});
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace norma::text;  // NOLINT(google-build-using-namespace)
  using norma::fuzz::complain;
  static norma::fuzz::Counts counts;
  ++counts.inputs;
  if (size == 0) return 0;
  BpeModel model;
  try {
    model = read(data[0], norma::fuzz::text_of(data + 1, size - 1));
  } catch (const norma::Error&) {
    return 0;
  }
  ++counts.accepted;
  const std::string written = tokenizer_json(model);
  if (tokenizer_json(read_tokenizer_json("again", written)) != written) {
    complain("a tokenizer changed on the way through tokenizer.json");
  }
  const BpeTokenizer tokenizer(std::move(model));
  const std::string_view text = norma::fuzz::text_of(data, std::min<std::size_t>(size, 64));
  if (tokenizer.decode(tokenizer.encode(text)) != text) complain("a text changed on the way");
  return 0;
}
