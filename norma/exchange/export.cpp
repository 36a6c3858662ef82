#include "norma/exchange/export.h"

#include <algorithm>

#include "norma/base/error.h"
#include "norma/base/rng.h"
#include "norma/base/text.h"
#include "norma/exchange/hf_config.h"
#include "norma/exchange/hf_form.h"
#include "norma/io/safetensors.h"
#include "norma/io/strict_json.h"
#include "norma/io/whole_folder.h"
#include "norma/text/bpe_files.h"

namespace norma::exchange {

namespace {

constexpr const char* kLogitsFile = "norma-logits.safetensors";

/// The three types, as the command line, safetensors and PyTorch call them.
struct DtypeWords {
  std::string_view ours;
  std::string_view stored;
  std::string_view torch;
};
constexpr DtypeWords kDtypes[] = {
    {"f32", "F32", "float32"}, {"bf16", "BF16", "bfloat16"}, {"f16", "F16", "float16"}};

const DtypeWords& dtype_of(const std::string& word) {
  for (const DtypeWords& dtype : kDtypes) {
    if (dtype.ours == word) return dtype;
  }
  throw RequestError(say("--dtype must be f32, bf16 or f16, got ", word, "."));
}

/// The names an export may have written: what --force may replace.
bool is_export_file(const std::string& name) {
  return name.ends_with(".safetensors") || name == "model.safetensors.index.json" ||
         name == "config.json" || name == "generation_config.json" ||
         name == text::kTokenizerFile || name == "tokenizer_config.json" ||
         name == "special_tokens_map.json" || name == "vocab.json" || name == "merges.txt";
}

class Exporter {
 public:
  Exporter(io::FileSystem& disk, Gpt& model, const ExportFacts& facts, const ExportRequest& request)
      : model_(model),
        facts_(facts),
        request_(request),
        dtype_(dtype_of(request.dtype)),
        type_(*io::find_stored_type(dtype_.stored)),
        form_(request.form == ExportForm::hf ? hf_form_of(model.spec(), model.scheme())
                                             : NameMap::norma),
        folder_(disk, request.folder, {.allowed = request.replace, .ours = is_export_file}) {}

  Exported write() {
    settle_vocabulary();
    write_weights();
    if (form_ != NameMap::norma) write_hf_files();
    write_tokenizer();
    if (request_.with_logits) write_logits();
    folder_.finish();
    result_.form = form_ == NameMap::gpt2    ? "GPT2LMHeadModel"
                   : form_ == NameMap::llama ? "LlamaForCausalLM"
                                             : "norma";
    return std::move(result_);
  }

 private:
  /// Rows that no token uses are there for the sake of round numbers; readers of the tokenizer and
  /// of vocab_size would find them contradicting.
  void settle_vocabulary() {
    vocab_ = model_.spec().vocab;
    if (!facts_.tokenizer) return;
    const auto used = static_cast<Index>(facts_.tokenizer->pieces.size());
    if (used > vocab_) {
      throw Error(say("the tokenizer of the run has ",
                      used,
                      " ids, but the model's vocabulary ends at ",
                      vocab_,
                      "."));
    }
    if (used == vocab_ || form_ == NameMap::norma || request_.keep_padding) return;
    result_.notes.push_back(say("left out ",
                                vocab_ - used,
                                " rows of the vocabulary that the tokenizer does not use "
                                "(--keep-padding keeps them)."));
    vocab_ = used;
  }

  std::vector<Joint> joints() const {
    std::vector<Joint> joints = joints_of(form_, model_.spec(), tensors_of(model_));
    for (Joint& joint : joints) {
      const bool table =
          joint.parts.front().name == "embed.tokens" || joint.parts.front().name == "head.weight";
      if (table) joint.first_rows = vocab_;
      const std::string_view body = form_ == NameMap::gpt2    ? "transformer."
                                    : form_ == NameMap::llama ? "model."
                                                              : "";
      if (joint.theirs != "lm_head.weight") joint.theirs = say(body, joint.theirs);
    }
    return joints;
  }

  void write_weights() {
    const TensorMap ours = tensors_of(model_);
    std::vector<std::vector<Joint>> shards(1);
    std::uint64_t filled = 0;
    for (Joint& joint : joints()) {
      const std::uint64_t bytes = io::bytes_of(stored_spec(joint, ours, type_));
      if (filled > 0 && filled + bytes > request_.shard_bytes) {
        shards.emplace_back();
        filled = 0;
      }
      filled += bytes;
      result_.weight_bytes += bytes;
      shards.back().push_back(std::move(joint));
    }
    std::string index;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const std::string name =
          shards.size() == 1 ? "model.safetensors" : shard_name(i + 1, shards.size());
      write_file(name, shards[i], ours);
      for (const Joint& joint : shards[i]) {
        index += say(index.empty() ? "" : ",\n",
                     "    ",
                     io::json_string(joint.theirs),
                     ": ",
                     io::json_string(name));
      }
    }
    if (shards.size() == 1) return;
    put("model.safetensors.index.json",
        say("{\n  \"metadata\": {\"total_size\": ",
            result_.weight_bytes,
            "},\n  \"weight_map\": {\n",
            index,
            "\n  }\n}\n"));
  }

  static std::string shard_name(std::size_t number, std::size_t count) {
    const auto five = [](std::size_t value) {
      const std::string digits = to_text(value);
      return std::string(5 - std::min<std::size_t>(5, digits.size()), '0') + digits;
    };
    return say("model-", five(number), "-of-", five(count), ".safetensors");
  }

  void write_file(const std::string& name,
                  const std::vector<Joint>& joints,
                  const TensorMap& ours) {
    folder_.write(name, [&](io::ByteSink& sink) {
      std::vector<io::TensorSpec> specs;
      specs.reserve(joints.size());
      for (const Joint& joint : joints) specs.push_back(stored_spec(joint, ours, type_));
      io::SafetensorsWriter writer(sink, std::move(specs), metadata());
      for (const io::StoredTensor& stored : writer.order()) {
        const auto joint = std::find_if(joints.begin(), joints.end(), [&](const Joint& candidate) {
          return candidate.theirs == stored.name;
        });
        writer.write(stored.name, gather(*joint, ours, type_));
      }
      writer.finish();
    });
    result_.files.push_back(name);
  }

  io::Metadata metadata() const {
    if (form_ != NameMap::norma) return {{"format", "pt"}};
    // Where this machine keeps its data is nobody's business.
    Settings recipe;
    for (const Settings::Entry& entry : facts_.recipe.entries()) {
      if (entry.key != "data.path" && entry.key != "train.init_from") recipe.set(entry);
    }
    return {{"format", "pt"},
            {"norma.scheme", facts_.scheme},
            {"norma.scheme_toml", toml_text(recipe.below("scheme"), Origins::hidden)},
            {"norma.recipe", toml_text(recipe, Origins::hidden)},
            {"norma.step", to_text(facts_.step)},
            {"norma.family", std::string(word_of(model_.spec().family))}};
  }

  HfFacts hf_facts() const {
    HfFacts facts{.form = form_, .vocab = vocab_, .dtype = dtype_.torch, .end_text = {}};
    if (!facts_.tokenizer) return facts;
    for (const text::SpecialToken& special : facts_.tokenizer->specials) {
      if (special.text == text::kEndOfText) facts.end_text = special.id;
    }
    return facts;
  }

  void write_hf_files() {
    const HfFacts facts = hf_facts();
    put("config.json", hf_config_text(model_.spec(), model_.scheme(), facts));
    put("generation_config.json", generation_config_text(facts));
    const bool biases = model_.spec().bias || form_ == NameMap::llama;
    if (!biases)
      result_.notes.emplace_back("GPT-2 has biases everywhere; those of this model are zeros.");
    if (!facts_.tokenizer) return;
    put("tokenizer_config.json", tokenizer_config_text(model_.spec(), facts));
    put("special_tokens_map.json", special_tokens_text(facts));
    put("vocab.json", text::vocab_json(*facts_.tokenizer));
    put("merges.txt", text::merges_txt(*facts_.tokenizer));
  }

  void write_tokenizer() {
    if (facts_.tokenizer) {
      put(text::kTokenizerFile, text::tokenizer_json(*facts_.tokenizer));
    } else {
      result_.notes.emplace_back("the run has no tokenizer.json, so none was written.");
    }
  }

  void put(const std::string& name, const std::string& text) {
    folder_.write(name, text);
    result_.files.push_back(name);
  }

  void write_logits() {
    constexpr Index kMost = 64;
    const Index length = std::min(kMost, model_.spec().context);
    const OwnedTensor ids({2, length}, DType::i32);
    std::uint64_t at = 0;
    for (std::int32_t& id : ids.tensor.elements<std::int32_t>()) {
      id =
          static_cast<std::int32_t>(random_word({1, 1}, at++) % static_cast<std::uint64_t>(vocab_));
    }
    Tape tape;
    const Var logits =
        tape.evaluate([&] { return model_.logits(tape, ids.tensor, {.training = false}); });
    std::vector<float> kept;
    for (Index row = 0; row < 2 * length; ++row) {
      for (Index col = 0; col < vocab_; ++col) {
        kept.push_back(static_cast<float>(value_at(logits.value(), row, col)));
      }
    }
    const auto size = [](Index value) { return static_cast<std::uint64_t>(value); };
    folder_.write(kLogitsFile, [&](io::ByteSink& sink) {
      io::SafetensorsWriter writer(
          sink,
          {{"ids", io::find_stored_type("I32"), {2, size(length)}},
           {"logits", io::find_stored_type("F32"), {2, size(length), size(vocab_)}}},
          {{"format", "pt"}});
      writer.write("ids", std::as_bytes(ids.tensor.elements<std::int32_t>()));
      writer.write("logits", std::as_bytes(std::span(kept)));
      writer.finish();
    });
    result_.files.emplace_back(kLogitsFile);
  }

  Gpt& model_;
  const ExportFacts& facts_;
  const ExportRequest& request_;
  const DtypeWords& dtype_;
  const io::StoredType& type_;
  NameMap form_;
  io::WholeFolder folder_;
  Index vocab_ = 0;
  Exported result_;
};

}  // namespace

Exported export_model(io::FileSystem& disk,
                      Gpt& model,
                      const ExportFacts& facts,
                      const ExportRequest& request) {
  return Exporter(disk, model, facts, request).write();
}

}  // namespace norma::exchange
