// A scheme is data: what sits at each site, how branches join, how logits are made, what holds for
// weights, how they start and which of them decay. Models read a scheme and never ask its name.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "norma/base/settings.h"
#include "norma/nn/param_tags.h"
#include "norma/nn/slot.h"

namespace norma {

enum class Residual : std::uint8_t { add, scaled, rscale, lerp, slerp, riem, alerp };

template <>
struct Words<Residual> {
  static constexpr std::array<std::pair<std::string_view, Residual>, 7> kAll{{
      {"add", Residual::add},        // x + b
      {"scaled", Residual::scaled},  // a·x + b
      {"rscale", Residual::rscale},  // λ⊙x + b
      {"lerp", Residual::lerp},
      {"slerp", Residual::slerp},
      {"riem", Residual::riem},
      {"alerp", Residual::alerp},
  }};
};

enum class AlphaKind : std::uint8_t { vector, scalar, fixed };

template <>
struct Words<AlphaKind> {
  static constexpr std::array<std::pair<std::string_view, AlphaKind>, 3> kAll{{
      {"vector", AlphaKind::vector},
      {"scalar", AlphaKind::scalar},
      {"fixed", AlphaKind::fixed},
  }};
};

struct ResidualRule {
  Residual rule = Residual::add;
  Formula scale{"1"};  // a of scaled
  AlphaKind alpha = AlphaKind::vector;
  Formula alpha_init{"0.05"};
  Formula alpha_scale{"1/sqrt(d)"};
  template <class F>
  void fields(F&& f) {
    f("rule", rule, "how a branch joins the stream");
    f("scale", scale, "factor of the stream under scaled");
    f("alpha", alpha, "eigen learning rates: vector, scalar or fixed");
    f("alpha_init", alpha_init, "their value at the start");
    f("alpha_scale", alpha_scale, "what is stored at the start: a private learning rate");
  }
  bool on_sphere() const {
    return rule == Residual::lerp || rule == Residual::slerp || rule == Residual::riem;
  }
  friend bool operator==(const ResidualRule&, const ResidualRule&) = default;
};

enum class TemperatureRule : std::uint8_t { none, direct, exponential };

template <>
struct Words<TemperatureRule> {
  static constexpr std::array<std::pair<std::string_view, TemperatureRule>, 3> kAll{{
      {"none", TemperatureRule::none},
      {"direct", TemperatureRule::direct},            // the factor itself
      {"exponential", TemperatureRule::exponential},  // exp(min(λ, ln 100))
  }};
};

enum class LogLength : std::uint8_t { none, fixed, learned };

template <>
struct Words<LogLength> {
  static constexpr std::array<std::pair<std::string_view, LogLength>, 3> kAll{{
      {"none", LogLength::none},
      {"fixed", LogLength::fixed},
      {"learned", LogLength::learned},
  }};
};

struct AttentionRule {
  Formula scale{"1/sqrt(dh)"};
  TemperatureRule temperature = TemperatureRule::none;
  bool temperature_per_head = true;
  Formula temperature_init{"1"};  // of what is stored
  Formula softcap{"0"};
  LogLength log_length = LogLength::none;
  bool head_gain = false;      // NormFormer: a factor per head, before W_o
  bool qk_after_rope = false;  // norms and gains of q and k after the rotation
  bool pair_tied = false;      // one gain for both coordinates of a rotated pair
  bool key_bias = true;        // false: W_k has no bias where the model has biases
  template <class F>
  void fields(F&& f) {
    f("scale", scale, "factor of the dot product");
    f("temperature", temperature, "a learned factor of the logits");
    f("temperature_per_head", temperature_per_head, "one per head, or one per block");
    f("temperature_init", temperature_init, "its stored value at the start");
    f("softcap", softcap, "C in C·tanh(l/C); 0: none");
    f("log_length", log_length, "factor ln(number of visible keys)");
    f("head_gain", head_gain, "a learned factor per head");
    f("qk_after_rope", qk_after_rope, "norms of q and k after the rotation");
    f("pair_tied", pair_tied, "one gain for both coordinates of a rotated pair");
    f("key_bias", key_bias, "whether W_k has a bias where the model has biases");
  }
  friend bool operator==(const AttentionRule&, const AttentionRule&) = default;
};

/// Learned factors inside the feed-forward layer and constant ones anywhere.
struct ScaleRule {
  GainKind s_u = GainKind::none;
  GainKind s_v = GainKind::none;
  Formula s_u_init{"1"};
  Formula s_u_scale{"1"};
  Formula s_v_init{"1"};
  Formula s_v_scale{"1"};
  Formula gate{"1"};       // constant factor of the gate
  Formula embedding{"1"};  // of the embedding, before the input site
  Formula value{"1"};      // of v
  Formula attn_out{"1"};   // of W_o's result
  Formula up{"1"};         // of u
  Formula inner{"1"};      // of the activation
  Formula down{"1"};       // of W_2's result
  Formula logit_softcap{"0"};
  template <class F>
  void fields(F&& f) {
    f("s_u", s_u, "learned factors of u");
    f("s_v", s_v, "learned factors of the gate");
    f("s_u_init", s_u_init, "s_u at the start");
    f("s_u_scale", s_u_scale, "its stored value");
    f("s_v_init", s_v_init, "s_v at the start");
    f("s_v_scale", s_v_scale, "its stored value");
    f("gate", gate, "constant factor of the gate");
    f("embedding", embedding, "constant factor of the embedding");
    f("value", value, "constant factor of v");
    f("attn_out", attn_out, "constant factor of what W_o gives");
    f("up", up, "constant factor of u");
    f("inner", inner, "constant factor of the activation");
    f("down", down, "constant factor of what W_2 gives");
    f("logit_softcap", logit_softcap, "C of the final logits; 0: none");
  }
  friend bool operator==(const ScaleRule&, const ScaleRule&) = default;
};

enum class WeightRule : std::uint8_t {
  free,
  unit,          // projected after every step
  parametrized,  // W/|W| in the forward pass
  weight_norm,   // g·v/|v| by rows
  row_max,
  frobenius,
  spectral
};

template <>
struct Words<WeightRule> {
  static constexpr std::array<std::pair<std::string_view, WeightRule>, 7> kAll{{
      {"free", WeightRule::free},
      {"unit", WeightRule::unit},
      {"parametrized", WeightRule::parametrized},
      {"weight_norm", WeightRule::weight_norm},
      {"row_max", WeightRule::row_max},
      {"frobenius", WeightRule::frobenius},
      {"spectral", WeightRule::spectral},
  }};
};

/// A rule per class of matrices.
struct WeightRules {
  std::array<WeightRule, 11> of{};  // by ParamClass, embedding .. patch
  WeightRule operator[](ParamClass kind) const { return of[static_cast<std::size_t>(kind)]; }
  template <class F>
  void fields(F&& f) {
    for (std::size_t i = 0; i < of.size(); ++i) {
      f(word_of(static_cast<ParamClass>(i)), of[i], "what holds for these weights");
    }
  }
  friend bool operator==(const WeightRules&, const WeightRules&) = default;
};

/// Which classes of parameters decay.
struct DecayRules {
  std::array<bool, 17> of{};  // by ParamClass
  bool operator[](ParamClass kind) const { return of[static_cast<std::size_t>(kind)]; }
  template <class F>
  void fields(F&& f) {
    for (std::size_t i = 0; i < of.size(); ++i) {
      f(word_of(static_cast<ParamClass>(i)), of[i], "whether weight decay applies");
    }
  }
  friend bool operator==(const DecayRules&, const DecayRules&) = default;
};

enum class InitRule : std::uint8_t {
  gpt2,
  xavier,
  xavier_truncated,
  ngpt,
  deepnorm,
  sub_ln,
  megatron,
  truncated
};

template <>
struct Words<InitRule> {
  static constexpr std::array<std::pair<std::string_view, InitRule>, 8> kAll{{
      {"gpt2", InitRule::gpt2},
      {"xavier", InitRule::xavier},
      {"xavier_truncated", InitRule::xavier_truncated},
      {"ngpt", InitRule::ngpt},
      {"deepnorm", InitRule::deepnorm},
      {"sub_ln", InitRule::sub_ln},
      {"megatron", InitRule::megatron},
      {"truncated", InitRule::truncated},
  }};
};

/// What one block is made of.
struct BlockRule {
  std::array<Slot, kSites> slots;
  ResidualRule attn_residual;
  ResidualRule ffn_residual;
  const Slot& operator[](Site site) const { return slots[static_cast<std::size_t>(site)]; }
  Slot& operator[](Site site) { return slots[static_cast<std::size_t>(site)]; }
  friend bool operator==(const BlockRule&, const BlockRule&) = default;
};

/// Blocks from <= i < to are made otherwise.
struct LayerOverride {
  Formula from{"0"};
  Formula to{"L"};
  BlockRule block;
};

struct Scheme {
  std::string name;
  std::string idea;    // one line
  std::string source;  // where it was published
  BlockRule block;
  std::vector<LayerOverride> layers;
  AttentionRule attention;
  ScaleRule scales;
  WeightRules weights;
  DecayRules decay;
  InitRule init = InitRule::gpt2;
  /// What the scheme asks of the rest of a recipe where that says nothing: model.*, optim.*,
  /// schedule.*, train.*.
  Settings wishes;

  /// The rules of block `layer` of `layers`.
  const BlockRule& block_at(Index layer, Index layer_count) const;
};

/// The scheme that merged settings describe: keys as in schemes/*.toml. Every site must be decided.
/// Throws RequestError with a sentence for what is unknown, undecided or cannot work.
Scheme read_scheme(const Settings& settings);

/// Throws when parts of the scheme cannot work together; returns warnings for what was forced.
std::vector<std::string> judge_scheme(const Scheme& scheme, bool causal);

}  // namespace norma
