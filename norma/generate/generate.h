// From a prompt to token after token.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "norma/generate/decoder.h"
#include "norma/generate/sampler.h"
#include "norma/text/tokenizer.h"

namespace norma {

struct GenerateSpec {
  SamplingSpec sampling{};
  Index tokens = 200;      // at most, of each sample
  Index first_sample = 0;  // number of the decoder's first sample, where there are several batches
  Index choices = 0;       // ids that may be drawn: 0 … choices − 1; 0: the model's vocabulary
  std::int32_t end = -1;   // a sample that draws this id is finished; -1: none
};

/// Takes a token of a sample (counted from the decoder's first) as soon as it is drawn. False stops
/// all samples.
using TokenTaker = std::function<bool(Index sample, std::int32_t id)>;

/// Draws samples that go on from the prompt. The end token is not given to the taker.
void generate(Decoder& decoder,
              std::span<const std::int32_t> prompt,
              const GenerateSpec& spec,
              const TokenTaker& take);

/// The ids of a prompt, special tokens recognized; an empty one starts from end-of-text where the
/// tokenizer has it, else from a new line. Throws RequestError when the model knows fewer ids.
std::vector<std::int32_t> prompt_ids(const text::Tokenizer& tokenizer,
                                     std::string_view prompt,
                                     Index model_vocab);

/// What generate() may draw, and where it ends, for a tokenizer and a model.
GenerateSpec spec_for(const text::Tokenizer& tokenizer, Index model_vocab);

}  // namespace norma
