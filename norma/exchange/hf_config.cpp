#include "norma/exchange/hf_config.h"

#include <cmath>

#include "norma/base/error.h"
#include "norma/base/json_value.h"
#include "norma/base/text.h"
#include "norma/exchange/hf_form.h"

namespace norma::exchange {

namespace {

constexpr std::size_t kLargestConfig = 1 << 20;

/// Reads keys of a config.json, each with what it must be.
class ConfigReader {
 public:
  ConfigReader(std::string_view file, std::string_view text)
      : file_(file), json_(parse_json(file, text, {.bytes = kLargestConfig})) {
    if (json_.kind != JsonValue::Kind::object) refuse("an object was expected");
  }

  template <class... Words>
  [[noreturn]] void refuse(const Words&... words) const {
    throw Error(say(file_, ": ", words..., "."));
  }

  /// Null counts as absent.
  const JsonValue* find(std::string_view key) const {
    const JsonValue* value = json_.find(key);
    return value == nullptr || value->kind == JsonValue::Kind::null ? nullptr : value;
  }
  std::optional<Index> size(std::string_view key) const {
    const JsonValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (value->kind != JsonValue::Kind::integer || value->integer < 1) {
      refuse(key, " must be a whole number of at least 1");
    }
    return value->integer;
  }
  double number(std::string_view key, double otherwise) const {
    const JsonValue* value = find(key);
    return value == nullptr ? otherwise : number_of(key, *value);
  }
  double number_of(std::string_view key, const JsonValue& value) const {
    if (value.kind == JsonValue::Kind::integer) return static_cast<double>(value.integer);
    if (value.kind != JsonValue::Kind::number || !std::isfinite(value.number)) {
      refuse(key, " must be a number");
    }
    return value.number;
  }
  bool flag(std::string_view key, bool otherwise) const {
    const JsonValue* value = find(key);
    if (value == nullptr) return otherwise;
    if (value->kind != JsonValue::Kind::boolean) refuse(key, " must be true or false");
    return value->boolean;
  }
  std::string word(std::string_view key, std::string_view otherwise) const {
    const JsonValue* value = find(key);
    if (value == nullptr) return std::string(otherwise);
    if (value->kind != JsonValue::Kind::string) refuse(key, " must be a string");
    return value->text;
  }

  void set(std::string key, Settings::Value value) {
    settings_.set({std::move(key), std::move(value), std::string(file_)});
  }
  /// A size that the file must have.
  void set_size(std::string key, std::string_view theirs) {
    const std::optional<Index> value = size(theirs);
    if (!value) refuse(theirs, " is missing");
    set(std::move(key), *value);
  }
  void require_flag(std::string_view key, bool wanted) const {
    if (flag(key, wanted) != wanted) {
      refuse(key, " is ", wanted ? "false" : "true", ", and Norma has no such model");
    }
  }
  /// The one epsilon of all norms, where it is not the kind's own.
  void set_eps(std::string_view key, NormKind kind) {
    const double usual = eps_of(usual_slot(kind));
    const double eps = number(key, usual);
    if (eps == usual) return;
    for (const char* site : {"attn_pre", "ffn_pre", "final"}) {
      set(say("scheme.", site, ".eps"), eps);
    }
  }
  template <class WordOf>
  void set_activation(std::string_view key, const std::string& word, WordOf&& word_for) {
    for (const auto& [ours, kind] : Words<FfnKind>::kAll) {
      if (!word_for(kind).empty() && word_for(kind) == word) {
        set("model.ffn", std::string(ours));
        return;
      }
    }
    refuse(key, " is \"", word, "\", which Norma does not have for this model");
  }
  Settings take() { return std::move(settings_); }

 private:
  std::string_view file_;
  JsonValue json_;
  Settings settings_;
};

void read_gpt2(ConfigReader& config) {
  config.set("scheme.base", std::string("pre-ln"));
  config.set_size("model.layers", "n_layer");
  config.set_size("model.width", "n_embd");
  config.set_size("model.heads", "n_head");
  config.set_size("model.context", "n_positions");
  config.set_size("model.vocab", "vocab_size");
  if (const auto inner = config.size("n_inner")) config.set("model.ffn_width", *inner);
  config.set("model.positions", std::string("learned"));
  config.set("model.bias", true);
  config.set("model.tied", config.flag("tie_word_embeddings", true));
  // gelu_pytorch_tanh and gelu_new are two names of one function.
  std::string activation = config.word("activation_function", "gelu_new");
  if (activation == "gelu_pytorch_tanh") activation = "gelu_new";
  config.set_activation("activation_function", activation, gpt2_activation);
  config.set_eps("layer_norm_epsilon", NormKind::layer);
  config.require_flag("scale_attn_weights", true);
  config.require_flag("scale_attn_by_inverse_layer_idx", false);
  config.require_flag("add_cross_attention", false);
}

/// The base of the rotation has been spelt in two ways; whoever writes both means the same.
double rope_base(const ConfigReader& config) {
  const double plain = config.number("rope_theta", 0);
  double nested = 0;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const JsonValue* table = config.find(key);
    if (table == nullptr) continue;
    const JsonValue* kind = table->find("rope_type");
    if (kind == nullptr) kind = table->find("type");
    if (kind != nullptr && kind->text != "default") {
      config.refuse(key, " stretches the rotary positions, and Norma does not");
    }
    if (const JsonValue* base = table->find("rope_theta")) nested = config.number_of(key, *base);
  }
  if (plain != 0 && nested != 0 && plain != nested) {
    config.refuse("rope_theta is ", plain, " in one place and ", nested, " in another");
  }
  constexpr double kUsual = 10000;
  if (plain != 0) return plain;
  return nested != 0 ? nested : kUsual;
}

void read_llama(ConfigReader& config) {
  config.set("scheme.base", std::string("pre-rms"));
  config.set_size("model.layers", "num_hidden_layers");
  config.set_size("model.width", "hidden_size");
  config.set_size("model.heads", "num_attention_heads");
  if (const auto heads = config.size("num_key_value_heads")) config.set("model.kv_heads", *heads);
  if (const auto head = config.size("head_dim")) config.set("model.head_width", *head);
  config.set_size("model.ffn_width", "intermediate_size");
  config.set_size("model.context", "max_position_embeddings");
  config.set_size("model.vocab", "vocab_size");
  config.set("model.positions", std::string("rope"));
  config.set("model.rope", std::string("half_split"));
  config.set("model.rope_base", rope_base(config));
  const bool bias = config.flag("attention_bias", false);
  if (config.flag("mlp_bias", false) != bias) {
    config.refuse(
        "only one of attention_bias and mlp_bias is true; Norma has biases in all linear "
        "maps or in none");
  }
  config.set("model.bias", bias);
  config.set("model.tied", config.flag("tie_word_embeddings", false));
  config.set_activation("hidden_act", config.word("hidden_act", "silu"), llama_activation);
  config.set_eps("rms_norm_eps", NormKind::rms);
}

}  // namespace

HfConfig read_hf_config(std::string_view file, std::string_view text) {
  ConfigReader config(file, text);
  HfConfig result;
  const std::string kind = config.word("model_type", "");
  if (kind == "gpt2") {
    read_gpt2(config);
  } else if (kind == "llama") {
    result.form = NameMap::llama;
    read_llama(config);
  } else {
    config.refuse(
        "the model_type must be gpt2 or llama, the two that Norma reads, got \"", kind, "\"");
  }
  if (config.find("quantization_config") != nullptr) {
    config.refuse("the weights are quantized; Norma reads f32, f16 and bf16");
  }
  result.settings = config.take();
  return result;
}

}  // namespace norma::exchange
