#include "norma/exchange/name_maps.h"

#include <utility>

#include "norma/base/text.h"

namespace norma::exchange {

namespace {

/// Collects the joints of one map.
class Joints {
 public:
  Joints(const ModelSpec& spec, const TensorMap& ours) : spec_(spec), ours_(ours) {}

  void add(std::string theirs, std::initializer_list<std::string> names) {
    Joint joint{.theirs = std::move(theirs)};
    for (const std::string& name : names) joint.parts.push_back({name});
    joints_.push_back(std::move(joint));
  }
  bool has(const std::string& name) const { return ours_.contains(name); }

  /// Linear maps that share one matrix of theirs, with their biases.
  struct Linear {
    bool transposed = false;
    bool bias = false;  // theirs has one, whether ours does or not
    Index turned_head = 0;
  };
  void linear(const std::string& theirs,
              std::initializer_list<std::string> names,
              const Linear& how) {
    Joint weight{
        .theirs = theirs + ".weight", .transposed = how.transposed, .turned_head = how.turned_head};
    Joint bias{.theirs = theirs + ".bias", .turned_head = how.turned_head};
    for (const std::string& name : names) {
      weight.parts.push_back({name + ".weight"});
      bias.parts.push_back(bias_part(name + ".bias", name + ".weight"));
    }
    joints_.push_back(std::move(weight));
    if (how.bias) joints_.push_back(std::move(bias));
  }
  /// A norm with a gain, and a shift where theirs has one.
  void norm(const std::string& theirs, const std::string& ours, bool bias) {
    add(theirs + ".weight", {ours + ".gain"});
    if (!bias) return;
    joints_.push_back(
        {.theirs = theirs + ".bias", .parts = {bias_part(ours + ".bias", ours + ".gain")}});
  }
  void head() {
    if (!spec_.tied) add("lm_head.weight", {"head.weight"});
  }
  std::vector<Joint> take() { return std::move(joints_); }

 private:
  /// Our bias, or as many zeros as the tensor beside it has rows.
  Part bias_part(const std::string& bias, const std::string& beside) const {
    if (has(bias)) return {bias};
    const auto at = ours_.find(beside);
    return {"", at == ours_.end() ? 0 : at->second.shape[0]};
  }

  const ModelSpec& spec_;
  const TensorMap& ours_;
  std::vector<Joint> joints_;
};

/// GPT-2 of Hugging Face (linear weights are (in, out), biases everywhere) and of nanoGPT (weights
/// are (out, in), biases everywhere or nowhere).
void add_gpt2(Joints& joints, const ModelSpec& spec, bool hugging_face) {
  const bool bias = hugging_face || spec.bias;
  const Joints::Linear linear{.transposed = hugging_face, .bias = bias};
  joints.add("wte.weight", {"embed.tokens"});
  joints.add("wpe.weight", {"embed.positions"});
  for (Index layer = 0; layer < spec.layers; ++layer) {
    const std::string theirs = say("h.", layer, ".");
    const std::string ours = say("blocks.", layer, ".");
    joints.norm(theirs + "ln_1", ours + "attn_pre", bias);
    joints.linear(
        theirs + "attn.c_attn", {ours + "attn.q", ours + "attn.k", ours + "attn.v"}, linear);
    joints.linear(theirs + "attn.c_proj", {ours + "attn.out"}, linear);
    joints.norm(theirs + "ln_2", ours + "ffn_pre", bias);
    joints.linear(theirs + "mlp.c_fc", {ours + "ffn.up"}, linear);
    joints.linear(theirs + "mlp.c_proj", {ours + "ffn.down"}, linear);
  }
  joints.norm("ln_f", "final", bias);
  joints.head();
}

void add_llama(Joints& joints, const ModelSpec& spec) {
  const Joints::Linear plain{.bias = spec.bias};
  // Theirs is the half-split layout, whatever ours is.
  const Joints::Linear turned{
      .bias = spec.bias, .turned_head = spec.rope == RopeLayout::interleaved ? spec.head() : 0};
  joints.add("embed_tokens.weight", {"embed.tokens"});
  for (Index layer = 0; layer < spec.layers; ++layer) {
    const std::string theirs = say("layers.", layer, ".");
    const std::string ours = say("blocks.", layer, ".");
    joints.norm(theirs + "input_layernorm", ours + "attn_pre", false);
    joints.linear(theirs + "self_attn.q_proj", {ours + "attn.q"}, turned);
    joints.linear(theirs + "self_attn.k_proj", {ours + "attn.k"}, turned);
    joints.linear(theirs + "self_attn.v_proj", {ours + "attn.v"}, plain);
    joints.linear(theirs + "self_attn.o_proj", {ours + "attn.out"}, plain);
    joints.norm(theirs + "post_attention_layernorm", ours + "ffn_pre", false);
    joints.linear(theirs + "mlp.up_proj", {ours + "ffn.up"}, plain);
    joints.linear(theirs + "mlp.gate_proj", {ours + "ffn.gate"}, plain);
    joints.linear(theirs + "mlp.down_proj", {ours + "ffn.down"}, plain);
  }
  joints.norm("norm", "final", false);
  joints.head();
}

/// NVIDIA/ngpt: nGPT, and its baseline with RMSNorm.
void add_ngpt(Joints& joints, const ModelSpec& spec) {
  const Joints::Linear linear{.bias = spec.bias};
  joints.add("wte.weight", {"embed.tokens"});
  for (Index layer = 0; layer < spec.layers; ++layer) {
    const std::string theirs = say("h.", layer, ".");
    const std::string ours = say("blocks.", layer, ".");
    joints.linear(theirs + "query", {ours + "attn.q"}, linear);
    joints.linear(theirs + "key", {ours + "attn.k"}, linear);
    joints.linear(theirs + "value", {ours + "attn.v"}, linear);
    joints.linear(theirs + "att_c_proj", {ours + "attn.out"}, linear);
    joints.linear(theirs + "c_fc", {ours + "ffn.up", ours + "ffn.gate"}, linear);
    joints.linear(theirs + "mlp_c_proj", {ours + "ffn.down"}, linear);
    if (joints.has(ours + "attn_pre.gain")) {
      joints.norm(theirs + "rmsnorm_att", ours + "attn_pre", false);
      joints.norm(theirs + "rmsnorm_mlp", ours + "ffn_pre", false);
      continue;
    }
    joints.add(theirs + "sqk", {ours + "q.gain"});
    joints.add(theirs + "attn_alpha", {ours + "attn_residual.alpha"});
    joints.add(theirs + "mlp_alpha", {ours + "ffn_residual.alpha"});
    joints.add(theirs + "suv", {ours + "ffn.s_u", ours + "ffn.s_v"});
  }
  if (joints.has("final.gain")) {
    joints.norm("rmsnorm_f", "final", false);
  } else {
    joints.add("sz", {"logits.gain"});
  }
  joints.head();
}

}  // namespace

std::vector<Joint> joints_of(NameMap map, const ModelSpec& spec, const TensorMap& ours) {
  Joints joints(spec, ours);
  switch (map) {
    case NameMap::gpt2:
      add_gpt2(joints, spec, true);
      break;
    case NameMap::nanogpt:
      add_gpt2(joints, spec, false);
      break;
    case NameMap::llama:
      add_llama(joints, spec);
      break;
    case NameMap::ngpt:
      add_ngpt(joints, spec);
      break;
    case NameMap::norma:
      for (const auto& [name, tensor] : ours) joints.add(name, {name});
      break;
  }
  return joints.take();
}

}  // namespace norma::exchange
