// config.json and its companions, as Hugging Face's transformers reads and writes them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "norma/base/settings.h"
#include "norma/exchange/name_maps.h"

namespace norma::exchange {

struct HfConfig {
  NameMap form = NameMap::gpt2;  // gpt2 or llama
  Settings settings;             // model.* and scheme.* of a recipe, from the file
};

/// What a config.json says. Throws an Error that begins with `file` for another kind of model, a
/// size that is missing or absurd, and every setting that would change what the model computes and
/// that Norma does not have.
HfConfig read_hf_config(std::string_view file, std::string_view text);

/// What config.json is written from.
struct HfFacts {
  NameMap form = NameMap::gpt2;
  Index vocab = 0;                // rows that are written
  std::string_view dtype;         // "float32"
  std::optional<Index> end_text;  // id of <|endoftext|>
};
std::string hf_config_text(const ModelSpec& spec, const Scheme& scheme, const HfFacts& facts);

std::string generation_config_text(const HfFacts& facts);
std::string tokenizer_config_text(const ModelSpec& spec, const HfFacts& facts);
std::string special_tokens_text(const HfFacts& facts);

}  // namespace norma::exchange
