#include "norma/generate/generate.h"

#include <algorithm>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/text/bpe_model.h"

namespace norma {

void generate(Decoder& decoder,
              std::span<const std::int32_t> prompt,
              const GenerateSpec& spec,
              const TokenTaker& take) {
  Sampler sampler(spec.sampling);
  const Index choices = spec.choices == 0 ? decoder.vocab() : spec.choices;
  const auto samples = static_cast<std::size_t>(decoder.samples());
  std::vector<std::int32_t> drawn(samples);
  std::vector<bool> finished(samples);
  std::size_t left = samples;
  decoder.start(prompt);
  for (Index token = 0; token < spec.tokens; ++token) {
    for (std::size_t s = 0; s < samples; ++s) {
      if (finished[s]) continue;  // it repeats its last token, which nobody reads
      const auto row = static_cast<Index>(s);
      drawn[s] = sampler.draw(
          decoder.logits(), row, choices, {.sample = spec.first_sample + row, .token = token});
      if (drawn[s] == spec.end) {
        finished[s] = true;
        --left;
      } else if (!take(row, drawn[s])) {
        return;
      }
    }
    if (left == 0) return;
    if (token + 1 < spec.tokens) decoder.append(drawn);
  }
}

std::vector<std::int32_t> prompt_ids(const text::Tokenizer& tokenizer,
                                     std::string_view prompt,
                                     Index model_vocab) {
  const text::Id end = tokenizer.special_id(text::kEndOfText);
  std::vector<std::int32_t> ids =
      prompt.empty() && end >= 0
          ? std::vector<std::int32_t>{end}
          : tokenizer.encode(prompt.empty() ? std::string_view("\n") : prompt,
                             text::Specials::recognized);
  const auto largest = std::max_element(ids.begin(), ids.end());
  if (static_cast<Index>(*largest) >= model_vocab) {
    throw RequestError(say("the prompt has token ",
                           *largest,
                           " of the tokenizer ",
                           tokenizer.name(),
                           ", but the model knows only ",
                           model_vocab,
                           " ids; they were not made for each other."));
  }
  return ids;
}

GenerateSpec spec_for(const text::Tokenizer& tokenizer, Index model_vocab) {
  return {.choices = std::min<Index>(tokenizer.vocab_size(), model_vocab),
          .end = tokenizer.special_id(text::kEndOfText)};
}

}  // namespace norma
