// The writing half of norma/exchange/hf_config.h.

#include "norma/base/text.h"
#include "norma/exchange/hf_config.h"
#include "norma/exchange/hf_form.h"
#include "norma/io/strict_json.h"
#include "norma/text/bpe_model.h"

namespace norma::exchange {

namespace {

/// A JSON object, one member a line.
class JsonText {
 public:
  void raw(std::string_view key, const std::string& value) {
    text_ += say(text_.empty() ? "" : ",\n", "  ", io::json_string(key), ": ", value);
  }
  void add(std::string_view key, std::string_view value) { raw(key, io::json_string(value)); }
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  void add(std::string_view key, bool value) { raw(key, value ? "true" : "false"); }
  void add(std::string_view key, Index value) { raw(key, to_text(value)); }
  void add(std::string_view key, double value) { raw(key, to_toml(value)); }
  void add(std::string_view key, const std::optional<Index>& value) {
    raw(key, value ? to_text(*value) : "null");
  }
  std::string text() const { return say("{\n", text_, "\n}\n"); }

 private:
  std::string text_;
};

void add_gpt2(JsonText& json, const ModelSpec& spec, double eps) {
  json.raw("architectures", "[\"GPT2LMHeadModel\"]");
  json.add("model_type", "gpt2");
  json.add("activation_function", gpt2_activation(spec.ffn));
  json.add("n_ctx", spec.context);
  json.add("n_positions", spec.context);
  json.add("n_embd", spec.width);
  json.add("n_layer", spec.layers);
  json.add("n_head", spec.heads);
  json.add("n_inner", spec.inner() == 4 * spec.width ? std::nullopt : std::optional(spec.inner()));
  json.add("layer_norm_epsilon", eps);
  json.add("attn_pdrop", 0.0);
  json.add("embd_pdrop", spec.dropout);
  json.add("resid_pdrop", spec.dropout);
  json.add("scale_attn_weights", true);
}

void add_llama(JsonText& json, const ModelSpec& spec, double eps) {
  json.raw("architectures", "[\"LlamaForCausalLM\"]");
  json.add("model_type", "llama");
  json.add("hidden_act", llama_activation(spec.ffn));
  json.add("max_position_embeddings", spec.context);
  json.add("hidden_size", spec.width);
  json.add("intermediate_size", spec.inner());
  json.add("num_hidden_layers", spec.layers);
  json.add("num_attention_heads", spec.heads);
  json.add("num_key_value_heads", spec.key_heads());
  json.add("head_dim", spec.head());
  json.add("rms_norm_eps", eps);
  json.add("rope_theta", spec.rope_base);
  json.raw("rope_parameters",
           say("{\"rope_type\": \"default\", \"rope_theta\": ", to_toml(spec.rope_base), "}"));
  json.add("attention_bias", spec.bias);
  json.add("mlp_bias", spec.bias);
  json.add("attention_dropout", 0.0);
}

void add_special_words(JsonText& json, const HfFacts& facts) {
  if (!facts.end_text) return;
  json.add("bos_token", text::kEndOfText);
  json.add("eos_token", text::kEndOfText);
}

}  // namespace

std::string hf_config_text(const ModelSpec& spec, const Scheme& scheme, const HfFacts& facts) {
  JsonText json;
  const double eps = eps_of(scheme.block[Site::final]);
  facts.form == NameMap::llama ? add_llama(json, spec, eps) : add_gpt2(json, spec, eps);
  json.add("vocab_size", facts.vocab);
  json.add("tie_word_embeddings", spec.tied);
  json.add("initializer_range", 0.02);
  json.add("bos_token_id", facts.end_text);
  json.add("eos_token_id", facts.end_text);
  json.add("use_cache", true);
  json.add("torch_dtype", facts.dtype);
  return json.text();
}

std::string generation_config_text(const HfFacts& facts) {
  JsonText json;
  json.add("bos_token_id", facts.end_text);
  json.add("eos_token_id", facts.end_text);
  return json.text();
}

std::string tokenizer_config_text(const ModelSpec& spec, const HfFacts& facts) {
  JsonText json;
  // The class that takes tokenizer.json as it is; GPT2Tokenizer would add <|endoftext|> where the
  // vocabulary has none.
  json.add("tokenizer_class", "PreTrainedTokenizerFast");
  json.add("model_max_length", spec.context);
  json.add("clean_up_tokenization_spaces", false);
  add_special_words(json, facts);
  return json.text();
}

std::string special_tokens_text(const HfFacts& facts) {
  JsonText json;
  add_special_words(json, facts);
  return json.text();
}

}  // namespace norma::exchange
