#include "norma/exchange/import.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "norma/base/error.h"
#include "norma/base/json_value.h"
#include "norma/base/text.h"
#include "norma/exchange/hf_config.h"

namespace norma::exchange {

namespace {

constexpr std::uint64_t kLargestConfig = 1 << 20;
constexpr const char* kRecipeKey = "norma.recipe";
constexpr const char* kStepKey = "norma.step";

/// The text of config.json; nothing where a file was named, or the folder has none.
std::optional<std::string> config_text(io::FileSystem& disk,
                                       const std::string& folder,
                                       const std::string& path) {
  std::vector<std::string> names;
  if (disk.list(folder, names).error != 0) return std::nullopt;
  if (std::find(names.begin(), names.end(), "config.json") == names.end()) return std::nullopt;
  return io::File(disk, path, io::OpenAs::read).text(kLargestConfig);
}

bool ends_with_any(const std::string& name, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view ending) {
    return name.ends_with(ending);
  });
}

/// NVIDIA's scales are stored relative to a number that its programs set to 1/sqrt(width), as
/// Norma's nGPT does.
void require_base_scale(const std::string& file, const JsonValue* scale, Index width) {
  if (scale == nullptr) return;
  const double usual = 1 / std::sqrt(static_cast<double>(width));
  constexpr double kNear = 1e-6;
  if (scale->kind == JsonValue::Kind::number && std::abs(scale->number / usual - 1) <= kNear)
    return;
  throw Error(say(file,
                  ": base_scale must be 1/sqrt(width) = ",
                  usual,
                  ", relative to which Norma's nGPT stores its scales."));
}

}  // namespace

Import::Import(io::FileSystem& disk,
               const std::string& from,
               const std::string& map_word,
               const Settings& said)
    : tensors_(disk, from) {
  const std::string config_path = io::join(from, "config.json");
  const std::optional<std::string> config = config_text(disk, from, config_path);
  choose_map(map_word, config);
  // Masks and tables of angles that some versions store beside the weights.
  std::vector<std::string> buffers;
  for (const io::StoredTensor& tensor : tensors_.tensors()) {
    const bool own = map_ == NameMap::norma;
    if (!own && ends_with_any(tensor.name, {".attn.bias", ".attn.masked_bias", ".inv_freq"})) {
      buffers.push_back(tensor.name);
    }
  }
  for (const std::string& name : buffers) tensors_.drop(name);
  if (map_ == NameMap::norma) {
    read_own();
  } else if (map_ == NameMap::gpt2 || map_ == NameMap::llama) {
    read_hf(config_path, *config);
  } else {
    read_gpt_names(config_path, config);
  }
  for (const Settings::Entry& entry : said.entries()) settings_.set(entry);
  for (const char* key : {"model.heads", "model.context"}) {
    if (settings_.find(key) != nullptr) continue;
    throw RequestError(say("the names and shapes of ",
                           tensors_.path(),
                           " do not tell ",
                           key,
                           ", and no config.json beside it does; say it: ",
                           key,
                           "=12 for example."));
  }
}

void Import::set(std::string key, Settings::Value value) {
  settings_.set({std::move(key), std::move(value), tensors_.path()});
}

void Import::choose_map(const std::string& map_word, const std::optional<std::string>& config) {
  const bool hugging_face = config && config->find("\"model_type\"") != std::string::npos;
  if (map_word == "norma" || (map_word == "auto" && tensors_.metadata().contains(kRecipeKey))) {
    map_ = NameMap::norma;
  } else if (map_word == "hf" || (map_word == "auto" && hugging_face)) {
    map_ = NameMap::gpt2;  // read_hf knows better
    if (!config) throw RequestError(say(tensors_.path(), " has no config.json beside it."));
  } else if (map_word == "ngpt" || (map_word == "auto" && tensors_.has("h.0.query.weight"))) {
    map_ = NameMap::ngpt;
  } else if (map_word == "nanogpt" ||
             (map_word == "auto" && tensors_.has("h.0.attn.c_attn.weight"))) {
    map_ = NameMap::nanogpt;
  } else {
    throw RequestError(say(tensors_.path(),
                           " looks like no model that Norma knows: its names are those of neither "
                           "GPT-2, Llama, nanoGPT, NVIDIA's ngpt nor Norma. See "
                           "docs/formats/exchange.md; --map decides where the names do not."));
  }
}

void Import::read_own() {
  const io::Metadata& metadata = tensors_.metadata();
  const auto recipe = metadata.find(kRecipeKey);
  if (recipe == metadata.end()) {
    throw Error(say(tensors_.path(),
                    " has no ",
                    kRecipeKey,
                    " in its metadata, so it was not written by norma export --to safetensors."));
  }
  settings_ = Settings::from_toml(recipe->second, say(tensors_.path(), ", ", kRecipeKey));
  const auto step = metadata.find(kStepKey);
  if (step == metadata.end()) return;
  const char* end = step->second.data() + step->second.size();
  const auto [after, error] = std::from_chars(step->second.data(), end, step_);
  if (error != std::errc{} || after != end || step_ < 0) {
    throw Error(say(tensors_.path(), ": ", kStepKey, " in the metadata is no step."));
  }
}

void Import::read_hf(const std::string& config_path, const std::string& config) {
  HfConfig read = read_hf_config(config_path, config);
  map_ = read.form;
  settings_ = std::move(read.settings);
  const bool tied = std::get<bool>(settings_.find("model.tied")->value);
  const char* table = map_ == NameMap::llama ? "embed_tokens.weight" : "wte.weight";
  if (!tied || !tensors_.has("lm_head.weight")) return;
  if (!tensors_.equal("lm_head.weight", table)) {
    throw Error(say(config_path,
                    " says that the head is the embedding (tie_word_embeddings), but ",
                    tensors_.path(),
                    " holds another lm_head.weight."));
  }
  tensors_.drop("lm_head.weight");
}

Index Import::extent(const std::string& tensor, std::size_t axis) const {
  const io::StoredTensor* found = tensors_.find(tensor);
  if (found == nullptr || found->shape.size() <= axis) {
    throw Error(
        say(tensors_.path(), " has no ", tensor, " of at least ", axis + 1, " dimensions."));
  }
  return static_cast<Index>(found->shape[axis]);
}

/// nanoGPT and NVIDIA/ngpt: names and shapes tell nearly everything.
void Import::read_gpt_names(const std::string& config_path,
                            const std::optional<std::string>& config) {
  const bool ngpt = map_ == NameMap::ngpt;
  const std::string query = ngpt ? ".query" : ".attn.c_attn";
  Index layers = 0;
  while (tensors_.has(say("h.", layers, query, ".weight"))) ++layers;
  set("model.layers", layers);
  set("model.width", extent("wte.weight", 1));
  set("model.vocab", extent("wte.weight", 0));
  set("model.ffn_width", extent(ngpt ? "h.0.mlp_c_proj.weight" : "h.0.mlp.c_proj.weight", 1));
  set("model.bias", tensors_.has(say("h.0", query, ".bias")));
  if (ngpt) {
    set("scheme.base", std::string(tensors_.has("sz") ? "ngpt" : "pre-rms"));
    set("model.positions", std::string("rope"));
    // What that program computes, faults included, so that the model is the one that was trained.
    set("model.rope", std::string("nvidia_defect"));
    notes_.emplace_back(
        "the positions are turned as NVIDIA's program does it (model.rope is "
        "nvidia_defect); say model.rope=interleaved for weights of a mended one.");
  } else {
    set("scheme.base", std::string("pre-ln"));
    set("model.positions", std::string("learned"));
    set("model.ffn", std::string("gelu"));
    set("model.context", extent("wpe.weight", 0));
  }
  settle_head();
  if (!config) return;
  const JsonValue json = parse_json(config_path, *config, {.bytes = kLargestConfig});
  const auto take = [&](const char* theirs, const char* ours) {
    const JsonValue* value = json.find(theirs);
    if (value == nullptr) return;
    if (value->kind != JsonValue::Kind::integer) {
      throw Error(say(config_path, ": ", theirs, " must be a whole number."));
    }
    const Settings::Entry* known = settings_.find(ours);
    if (known != nullptr && std::get<Index>(known->value) != value->integer) {
      throw Error(say(config_path,
                      ": ",
                      theirs,
                      " is ",
                      value->integer,
                      ", but the tensors say ",
                      std::get<Index>(known->value),
                      "."));
    }
    settings_.set({ours, value->integer, config_path});
  };
  take("n_head", "model.heads");
  take("block_size", "model.context");
  take("n_layer", "model.layers");
  take("n_embd", "model.width");
  take("vocab_size", "model.vocab");
  if (ngpt) require_base_scale(config_path, json.find("base_scale"), extent("wte.weight", 1));
}

void Import::settle_head() {
  const bool tied =
      !tensors_.has("lm_head.weight") || tensors_.equal("lm_head.weight", "wte.weight");
  set("model.tied", tied);
  if (tied && tensors_.has("lm_head.weight")) tensors_.drop("lm_head.weight");
}

void Import::require(Gpt& model) const {
  const TensorMap ours = tensors_of(model);
  tensors_.require(joints_of(map_, model.spec(), ours), ours);
}

void Import::load(Gpt& model) const {
  const TensorMap ours = tensors_of(model);
  tensors_.load(joints_of(map_, model.spec(), ours), ours);
}

}  // namespace norma::exchange
