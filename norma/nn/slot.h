// The named places of a Transformer where a norm may sit, and what may sit there.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "norma/base/fields.h"
#include "norma/base/formula.h"
#include "norma/ops/batch_norm.h"

namespace norma {

/// In the order in which a token meets them.
enum class Site : std::uint8_t {
  patch_pre,   // raw pixels of a patch
  patch_post,  // its projection
  input,       // the residual stream before the first block
  attn_pre,    // what the attention reads
  q,
  k,
  v,
  attn_inner,  // concatenated heads, before W_o
  attn_mid,    // the branch, before it joins the stream
  attn_post,   // the stream after it joined
  ffn_pre,
  ffn_inner,  // after the activation, before W_2
  ffn_mid,
  ffn_post,
  final,  // the stream after the last block
  logits
};
inline constexpr std::size_t kSites = 16;

template <>
struct Words<Site> {
  static constexpr std::array<std::pair<std::string_view, Site>, kSites> kAll{{
      {"patch_pre", Site::patch_pre},
      {"patch_post", Site::patch_post},
      {"input", Site::input},
      {"attn_pre", Site::attn_pre},
      {"q", Site::q},
      {"k", Site::k},
      {"v", Site::v},
      {"attn_inner", Site::attn_inner},
      {"attn_mid", Site::attn_mid},
      {"attn_post", Site::attn_post},
      {"ffn_pre", Site::ffn_pre},
      {"ffn_inner", Site::ffn_inner},
      {"ffn_mid", Site::ffn_mid},
      {"ffn_post", Site::ffn_post},
      {"final", Site::final},
      {"logits", Site::logits},
  }};
};

enum class NormKind : std::uint8_t { none, layer, rms, rms1, l2, scale, dyt, derf, batch, gain };

template <>
struct Words<NormKind> {
  static constexpr std::array<std::pair<std::string_view, NormKind>, 10> kAll{{
      {"none", NormKind::none},
      {"ln", NormKind::layer},
      {"rms", NormKind::rms},
      {"rms1", NormKind::rms1},    // gain 1 + γ, γ starts at 0
      {"l2", NormKind::l2},        // length 1
      {"scale", NormKind::scale},  // length g·√d
      {"dyt", NormKind::dyt},
      {"derf", NormKind::derf},
      {"bn", NormKind::batch},
      {"gain", NormKind::gain},  // a learned factor and no norm
  }};
};

enum class GainKind : std::uint8_t { none, vector, scalar, shared };

template <>
struct Words<GainKind> {
  static constexpr std::array<std::pair<std::string_view, GainKind>, 4> kAll{{
      {"none", GainKind::none},
      {"vector", GainKind::vector},
      {"scalar", GainKind::scalar},
      {"shared", GainKind::shared},  // k uses the gain of q
  }};
};

/// What is normalized together, and how many gains there are.
enum class Scope : std::uint8_t {
  row,      // the whole width
  head,     // each head; gain of length D, the same for all heads
  per_head  // each head; each with its own gain
};

template <>
struct Words<Scope> {
  static constexpr std::array<std::pair<std::string_view, Scope>, 3> kAll{{
      {"row", Scope::row},
      {"head", Scope::head},
      {"per_head", Scope::per_head},
  }};
};

enum class Choice : std::uint8_t { yes, no, as_model };

template <>
struct Words<Choice> {
  static constexpr std::array<std::pair<std::string_view, Choice>, 3> kAll{{
      {"yes", Choice::yes},
      {"no", Choice::no},
      {"as_model", Choice::as_model},
  }};
};

template <>
struct Words<BatchStatistics> {
  static constexpr std::array<std::pair<std::string_view, BatchStatistics>, 4> kAll{{
      {"all", BatchStatistics::all},
      {"position", BatchStatistics::position},
      {"prefix", BatchStatistics::prefix},
      {"running", BatchStatistics::running},
  }};
};

/// What sits at a site.
struct Slot {
  NormKind norm = NormKind::none;
  double eps = 0;  // 0: the kind's own (ln 1e-5, rms 1e-6, l2 1e-12, bn 1e-5)
  GainKind gain = GainKind::none;
  Choice bias = Choice::no;   // as_model: where the model has biases
  Formula gain_init{"1"};     // what the model uses at the start
  Formula gain_scale;         // what is stored then; absent: the same
  Formula alpha_init{"0.5"};  // a of dyt and derf
  Scope scope = Scope::row;
  BatchStatistics statistics = BatchStatistics::position;
  bool force = false;  // bn over all positions of a causal model, although it sees the future
  Choice decay = Choice::as_model;  // of gain and bias; as_model: as the decay classes say

  template <class F>
  void fields(F&& f) {
    f("norm", norm, "what is done here");
    f("eps", eps, "0: the kind's own", Range{0, 1});
    f("gain", gain, "learned factors");
    f("bias", bias, "learned shifts");
    f("gain_init", gain_init, "value of the factors at the start");
    f("gain_scale", gain_scale, "what is stored at the start: a private learning rate");
    f("alpha_init", alpha_init, "a of dyt and derf at the start");
    f("scope", scope, "what is normalized together");
    f("statistics", statistics, "what bn averages over");
    f("force", force, "bn over all positions of a causal model");
    f("decay", decay, "weight decay of gain and bias");
  }
  explicit operator bool() const { return norm != NormKind::none; }
  friend bool operator==(const Slot&, const Slot&) = default;
};

/// The slot a kind starts from: its usual gain, bias and eps.
Slot usual_slot(NormKind kind);
/// The slot's eps, or that of its kind where it names none.
double eps_of(const Slot& slot);

}  // namespace norma
