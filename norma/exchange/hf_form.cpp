#include "norma/exchange/hf_form.h"

#include <algorithm>
#include <cmath>

#include "norma/base/error.h"
#include "norma/base/text.h"

namespace norma::exchange {

namespace {

constexpr std::size_t kNamed = 3;  // differences that a sentence names

class Fit {
 public:
  Fit(NameMap form, const ModelSpec& spec, const Scheme& scheme)
      : llama_(form == NameMap::llama),
        spec_(spec),
        scheme_(scheme),
        build_(spec, scheme, unused_) {}

  std::vector<std::string> judge() {
    llama_ ? judge_llama_sizes() : judge_gpt2_sizes();
    want(spec_.layer_scale == 0, "model.layer_scale is a factor it does not have");
    judge_slots(scheme_.block, "");
    for (Index layer = 0; layer < spec_.layers; ++layer) {
      const BlockRule& block = scheme_.block_at(layer, spec_.layers);
      if (!(block == scheme_.block)) judge_slots(block, say("block ", layer, ": "));
    }
    judge_one_eps();
    judge_attention();
    judge_scales();
    for (std::size_t i = 0; i < scheme_.weights.of.size(); ++i) {
      const WeightRule rule = scheme_.weights.of[i];
      want(rule != WeightRule::parametrized && rule != WeightRule::weight_norm,
           say("weights.", word_of(static_cast<ParamClass>(i)), " are normalized on the way"));
    }
    return std::move(found_);
  }

 private:
  void want(bool holds, const std::string& otherwise) {
    if (!holds && std::find(found_.begin(), found_.end(), otherwise) == found_.end()) {
      found_.push_back(otherwise);
    }
  }
  bool is(const Formula& formula, double wanted) const {
    return std::abs(build_.value(formula) - wanted) <= 1e-12 * std::abs(wanted);
  }

  void judge_gpt2_sizes() {
    want(spec_.positions == Positions::learned, "model.positions is not learned");
    want(!gpt2_activation(spec_.ffn).empty(), say("model.ffn is ", word_of(spec_.ffn)));
    want(spec_.key_heads() == spec_.heads, "model.kv_heads is not model.heads");
    want(spec_.head() * spec_.heads == spec_.width, "model.head_width is not width/heads");
  }
  void judge_llama_sizes() {
    want(spec_.positions == Positions::rope, "model.positions is not rope");
    want(spec_.rope != RopeLayout::nvidia_defect, "model.rope is nvidia_defect");
    want(!llama_activation(spec_.ffn).empty(), say("model.ffn is ", word_of(spec_.ffn)));
  }

  void judge_slots(const BlockRule& block, const std::string& where) {
    const NormKind wanted = llama_ ? NormKind::rms : NormKind::layer;
    for (const auto& [word, site] : Words<Site>::kAll) {
      if (site == Site::patch_pre || site == Site::patch_post) continue;  // a text model has none
      const Slot& slot = block[site];
      const bool normed = site == Site::attn_pre || site == Site::ffn_pre || site == Site::final;
      if (!normed) {
        want(!slot, say(where, word, " has ", word_of(slot.norm)));
        continue;
      }
      if (slot.norm != wanted) {
        want(false, say(where, word, " has ", word_of(slot.norm), " and not ", word_of(wanted)));
        continue;
      }
      want(slot.gain == GainKind::vector && slot.scope == Scope::row,
           say(where, word, " has no gain of its own for each column"));
      want(!slot.gain_scale || build_.value(slot.gain_scale) == build_.value(slot.gain_init),
           say(where, word, " stores its gain in another scale"));
    }
    for (const ResidualRule* rule : {&block.attn_residual, &block.ffn_residual}) {
      want(rule->rule == Residual::add, say(where, "the residual rule is ", word_of(rule->rule)));
    }
  }

  /// Their configuration has one epsilon for all norms.
  void judge_one_eps() {
    const double eps = eps_of(scheme_.block[Site::final]);
    for (Index layer = 0; layer < spec_.layers; ++layer) {
      const BlockRule& block = scheme_.block_at(layer, spec_.layers);
      want(eps_of(block[Site::attn_pre]) == eps && eps_of(block[Site::ffn_pre]) == eps,
           "its norms have different eps");
    }
  }

  void judge_attention() {
    const AttentionRule& rule = scheme_.attention;
    want(is(rule.scale, 1 / std::sqrt(static_cast<double>(spec_.head()))),
         say("attention.scale is ", rule.scale.text));
    want(rule.temperature == TemperatureRule::none, "attention has a temperature");
    want(is(rule.softcap, 0), "attention.softcap is set");
    want(rule.log_length == LogLength::none, "attention.log_length is set");
    want(!rule.head_gain, "attention.head_gain is set");
  }

  void judge_scales() {
    const ScaleRule& scales = scheme_.scales;
    want(scales.s_u == GainKind::none && scales.s_v == GainKind::none,
         "the feed-forward layer has learned scales");
    const std::pair<const char*, const Formula*> factors[] = {{"embedding", &scales.embedding},
                                                              {"value", &scales.value},
                                                              {"attn_out", &scales.attn_out},
                                                              {"up", &scales.up},
                                                              {"gate", &scales.gate},
                                                              {"inner", &scales.inner},
                                                              {"down", &scales.down}};
    for (const auto& [word, factor] : factors) {
      want(is(*factor, 1), say("scales.", word, " is ", factor->text));
    }
    want(is(scales.logit_softcap, 0), "scales.logit_softcap is set");
  }

  bool llama_;
  const ModelSpec& spec_;
  const Scheme& scheme_;
  ParamStore unused_;
  Build build_;
  std::vector<std::string> found_;
};

}  // namespace

std::string_view gpt2_activation(FfnKind ffn) {
  switch (ffn) {
    case FfnKind::gelu:
      return "gelu";
    case FfnKind::gelu_tanh:
      return "gelu_new";
    case FfnKind::relu:
      return "relu";
    case FfnKind::silu:
      return "silu";
    default:
      return "";
  }
}

std::string_view llama_activation(FfnKind ffn) {
  switch (ffn) {
    case FfnKind::swiglu:
      return "silu";
    case FfnKind::geglu:
      return "gelu_pytorch_tanh";
    default:
      return "";
  }
}

std::vector<std::string> misfits(NameMap form, const ModelSpec& spec, const Scheme& scheme) {
  return Fit(form, spec, scheme).judge();
}

NameMap hf_form_of(const ModelSpec& spec, const Scheme& scheme) {
  const std::vector<std::string> gpt2 = misfits(NameMap::gpt2, spec, scheme);
  if (gpt2.empty()) return NameMap::gpt2;
  const std::vector<std::string> llama = misfits(NameMap::llama, spec, scheme);
  if (llama.empty()) return NameMap::llama;
  const bool nearer_llama = llama.size() < gpt2.size();
  const std::vector<std::string>& found = nearer_llama ? llama : gpt2;
  std::string list;
  for (std::size_t i = 0; i < found.size() && i < kNamed; ++i) {
    list += say(i == 0 ? "" : "; ", found[i]);
  }
  if (found.size() > kNamed) list += say("; and ", found.size() - kNamed, " more");
  throw RequestError(
      say("this model is neither a GPT-2 nor a Llama of transformers, so --to hf cannot write it. "
          "From ",
          nearer_llama ? "Llama" : "GPT-2",
          " it differs in this: ",
          list,
          ". --to safetensors writes any model under Norma's own names, with its scheme and recipe "
          "in the metadata."));
}

}  // namespace norma::exchange
