// Which model of Hugging Face's transformers computes exactly what one of ours does. Judged by
// slots, rules and sizes, never by the name of a scheme.
#pragma once

#include <string>
#include <vector>

#include "norma/exchange/name_maps.h"

namespace norma::exchange {

/// What keeps the model from being a GPT2LMHeadModel or a LlamaForCausalLM (`form`: gpt2 or llama),
/// one clause each; nothing: it is one.
std::vector<std::string> misfits(NameMap form, const ModelSpec& spec, const Scheme& scheme);

/// The form that fits. Throws a RequestError that names the first things that differ from the
/// nearer form.
NameMap hf_form_of(const ModelSpec& spec, const Scheme& scheme);

/// The words that their configurations have for our activation, or empty.
std::string_view gpt2_activation(FfnKind ffn);
std::string_view llama_activation(FfnKind ffn);

}  // namespace norma::exchange
