#include "norma/nn/scheme_text.h"

#include <algorithm>

#include "norma/base/read_fields.h"
#include "norma/base/text.h"

namespace norma {

namespace {

constexpr const char* kNothing = "–";

/// A formula without blanks and without a trailing ".0".
std::string plain(const Formula& formula) {
  std::string text = formula.text;
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

std::string shift(const Slot& slot) {
  if (slot.bias == Choice::yes) return " + β";
  return slot.bias == Choice::as_model ? " + β where the model has biases" : "";
}

std::string formula_of(const Slot& slot) {
  const std::string gain = slot.gain == GainKind::none ? "" : "γ⊙";
  const std::string eps = to_text(eps_of(slot));
  switch (slot.norm) {
    case NormKind::none:
      return kNothing;
    case NormKind::layer:
      return say(gain, "(x − μ)/√(σ² + ", eps, ")", shift(slot));
    case NormKind::rms:
      return say(gain, "x/√(mean(x²) + ", eps, ")");
    case NormKind::rms1:
      return say("(1 + γ)⊙x/√(mean(x²) + ", eps, ")");
    case NormKind::l2:
      return slot.gain == GainKind::none ? "x/|x|" : "s⊙x/|x|";
    case NormKind::scale:
      return "g·√d·x/|x|";
    case NormKind::dyt:
      return say(gain, "tanh(a·x)", shift(slot), ", a starts at ", plain(slot.alpha_init));
    case NormKind::derf:
      return say(gain, "erf(a·x + s)", shift(slot), ", a starts at ", plain(slot.alpha_init));
    case NormKind::batch:
      return say(gain,
                 "(x − μ)/√(σ² + ",
                 eps,
                 ")",
                 shift(slot),
                 ", statistics: ",
                 word_of(slot.statistics));
    case NormKind::gain:
      return "s⊙x";
  }
  return kNothing;
}

std::string start_of(const Slot& slot) {
  if (slot.gain == GainKind::none) return "";
  if (slot.gain == GainKind::shared) return ", the factors of q";
  std::string text;
  if (slot.gain == GainKind::scalar) text = ", one factor";
  const std::string init = plain(slot.gain_init);
  if (slot.gain_scale) {
    text += say(", starts at ", init, ", stored as ", plain(slot.gain_scale));
  } else if (init != (slot.norm == NormKind::rms1 ? "0" : "1")) {
    text += say(", starts at ", init);
  }
  return text;
}

std::string slot_text(const Slot& slot) {
  if (!slot) return kNothing;
  std::string text = formula_of(slot) + start_of(slot);
  if (slot.scope != Scope::row) {
    const bool learned = slot.gain == GainKind::vector || slot.bias != Choice::no;
    text += "; per head";
    if (learned) text += slot.scope == Scope::head ? ", one γ for all" : ", each its own";
  }
  if (slot.decay != Choice::as_model) text += slot.decay == Choice::yes ? "; decays" : "; no decay";
  return text;
}

std::string residual_text(const ResidualRule& rule) {
  const std::string alpha = say(rule.alpha == AlphaKind::fixed
                                    ? say("α = ", plain(rule.alpha_init), ", not learned")
                                    : say(rule.alpha == AlphaKind::scalar ? "one α" : "a vector α",
                                          ", starts at ",
                                          plain(rule.alpha_init),
                                          ", stored as ",
                                          plain(rule.alpha_scale)));
  switch (rule.rule) {
    case Residual::add:
      return "x + b";
    case Residual::scaled:
      return say(plain(rule.scale), "·x + b");
    case Residual::rscale:
      return "λ⊙x + b, λ starts at 1";
    case Residual::lerp:
      return say("L2(a + α⊙(b̂ − a)), a = L2(x), b̂ = L2(b); ", alpha);
    case Residual::slerp:
      return say("L2(slerp(a, b̂, α)), a = L2(x), b̂ = L2(b); ", alpha);
    case Residual::riem:
      return say("L2(a + α⊙(b̂ − a⟨a, b̂⟩)), a = L2(x), b̂ = L2(b); ", alpha);
    case Residual::alerp:
      return say("ν·(x + α⊙(b − x)), ν = (α² + (1 − α)²)^(−1/2); ", alpha);
  }
  return "";
}

std::string logits_text(const AttentionRule& rule) {
  std::string text = plain(rule.scale) == "1" ? "⟨q, k⟩" : say(plain(rule.scale), "·⟨q, k⟩");
  if (rule.temperature == TemperatureRule::direct) {
    text = say("g·", text, ", g starts at ", plain(rule.temperature_init));
  }
  if (rule.temperature == TemperatureRule::exponential) {
    text = say("τ·", text, ", τ = exp(min(λ, ln 100)), λ starts at ", plain(rule.temperature_init));
  }
  if (rule.temperature != TemperatureRule::none) {
    text += rule.temperature_per_head ? ", one per head" : ", one per block";
  }
  if (rule.log_length == LogLength::fixed) text += "; times ln(n)/ln(T), n visible keys";
  if (rule.log_length == LogLength::learned) text += "; times s·ln(n), s learned per head";
  if (plain(rule.softcap) != "0") {
    text += say("; capped: C·tanh(ℓ/C), C = ", plain(rule.softcap));
  }
  if (rule.qk_after_rope) text += "; norms of q and k after RoPE";
  if (rule.pair_tied) text += "; one gain per rotated pair";
  if (rule.head_gain) text += "; a learned factor per head before W_o";
  if (!rule.key_bias) text += "; no bias on k";
  return text;
}

std::string scales_text(const ScaleRule& scales) {
  std::string text;
  const auto note = [&](const std::string& part) { text += say(text.empty() ? "" : "; ", part); };
  const auto learned =
      [&](const char* name, GainKind kind, const Formula& init, const Formula& stored) {
        if (kind == GainKind::none) return;
        note(say(kind == GainKind::scalar ? "one " : "a vector ",
                 name,
                 ", starts at ",
                 plain(init),
                 ", stored as ",
                 plain(stored)));
      };
  const auto constant = [&](const char* name, const Formula& formula, const char* neutral) {
    if (plain(formula) != neutral) note(say(name, " ", plain(formula)));
  };
  constant("embedding times", scales.embedding, "1");
  constant("v times", scales.value, "1");
  constant("W_o's result times", scales.attn_out, "1");
  constant("u times", scales.up, "1");
  learned("s_u of u", scales.s_u, scales.s_u_init, scales.s_u_scale);
  constant("gate times", scales.gate, "1");
  learned("s_v of the gate", scales.s_v, scales.s_v_init, scales.s_v_scale);
  constant("activation times", scales.inner, "1");
  constant("W_2's result times", scales.down, "1");
  constant("final logits capped at", scales.logit_softcap, "0");
  return text.empty() ? kNothing : text;
}

/// "unit (embedding, query, …)": classes grouped by rule.
std::string weights_text(const WeightRules& weights) {
  std::string text;
  for (const auto& [word, rule] : Words<WeightRule>::kAll) {
    if (rule == WeightRule::free) continue;
    std::string classes;
    for (std::size_t i = 0; i < weights.of.size(); ++i) {
      if (weights.of[i] != rule) continue;
      classes += say(classes.empty() ? "" : ", ", word_of(static_cast<ParamClass>(i)));
    }
    if (!classes.empty()) text += say(text.empty() ? "" : "; ", word, ": ", classes);
  }
  return text.empty() ? "free" : text;
}

std::string decay_text(const DecayRules& decay) {
  std::string yes;
  for (const auto& [word, kind] : Words<ParamClass>::kAll) {
    if (decay[kind] && kind != ParamClass::other) yes += say(yes.empty() ? "" : ", ", word);
  }
  return yes.empty() ? "nothing decays" : yes;
}

std::string wishes_text(const Settings& wishes) {
  std::string text;
  for (const Settings::Entry& entry : wishes.entries()) {
    text += say(text.empty() ? "" : ", ", entry.key, " = ", to_toml(entry.value));
  }
  return text.empty() ? kNothing : text;
}

void describe_block(const BlockRule& block,
                    const BlockRule* against,
                    const std::string& prefix,
                    std::vector<SchemeRow>& rows) {
  for (const auto& [word, site] : Words<Site>::kAll) {
    if (against != nullptr && (*against)[site] == block[site]) continue;
    rows.push_back({say(prefix, word), slot_text(block[site])});
  }
  const auto rule = [&](const char* name, const ResidualRule& ours, const ResidualRule* other) {
    if (other != nullptr && *other == ours) return;
    rows.push_back({say(prefix, name), residual_text(ours)});
  };
  rule("residual.attn", block.attn_residual, against ? &against->attn_residual : nullptr);
  rule("residual.ffn", block.ffn_residual, against ? &against->ffn_residual : nullptr);
}

/// "RMS(x)", or the inner text itself where nothing sits.
std::string around(const Slot& slot, const std::string& inner) {
  switch (slot.norm) {
    case NormKind::none:
      return inner;
    case NormKind::layer:
      return say("LN(", inner, ")");
    case NormKind::rms:
      return say("RMS(", inner, ")");
    case NormKind::rms1:
      return say("RMS1(", inner, ")");
    case NormKind::l2:
      return slot.gain == GainKind::none ? say("L2(", inner, ")") : say("s⊙L2(", inner, ")");
    case NormKind::scale:
      return say("SCALE(", inner, ")");
    case NormKind::dyt:
      return say("DyT(", inner, ")");
    case NormKind::derf:
      return say("Derf(", inner, ")");
    case NormKind::batch:
      return say("BN(", inner, ")");
    case NormKind::gain:
      return say("s⊙", inner);
  }
  return inner;
}

std::string joined(const ResidualRule& rule, const std::string& branch) {
  switch (rule.rule) {
    case Residual::add:
      return say("x + ", branch);
    case Residual::scaled:
      return say(plain(rule.scale), "·x + ", branch);
    case Residual::rscale:
      return say("λ⊙x + ", branch);
    default:
      return say(word_of(rule.rule), "(x, ", branch, ", α)");
  }
}

void block_equations(const BlockRule& block, std::vector<std::string>& lines) {
  const auto read = [&](const char* matrix, Site site) {
    return around(block[site], say(matrix, " ", around(block[Site::attn_pre], "x")));
  };
  lines.push_back(say(
      "q, k, v = ", read("W_q", Site::q), ", ", read("W_k", Site::k), ", ", read("W_v", Site::v)));
  const std::string branch = around(
      block[Site::attn_mid], say("W_o ", around(block[Site::attn_inner], "attention(q, k, v)")));
  lines.push_back(say("x = ", around(block[Site::attn_post], joined(block.attn_residual, branch))));
  const std::string ffn = around(
      block[Site::ffn_mid],
      say("W_2 ",
          around(block[Site::ffn_inner], say("act(W_1 ", around(block[Site::ffn_pre], "x"), ")"))));
  lines.push_back(say("x = ", around(block[Site::ffn_post], joined(block.ffn_residual, ffn))));
}

}  // namespace

std::vector<SchemeRow> describe(const Scheme& scheme) {
  std::vector<SchemeRow> rows;
  describe_block(scheme.block, nullptr, "", rows);
  for (const LayerOverride& range : scheme.layers) {
    const std::string prefix = say("blocks ", plain(range.from), " ≤ i < ", plain(range.to), ": ");
    describe_block(range.block, &scheme.block, prefix, rows);
  }
  rows.push_back({"attention logits", logits_text(scheme.attention)});
  rows.push_back({"scales", scales_text(scheme.scales)});
  rows.push_back({"weights", weights_text(scheme.weights)});
  rows.push_back({"init", std::string(word_of(scheme.init))});
  rows.push_back({"decays", decay_text(scheme.decay)});
  rows.push_back({"asks for", wishes_text(scheme.wishes)});
  return rows;
}

std::vector<std::string> equations(const Scheme& scheme) {
  std::vector<std::string> lines;
  lines.push_back(say("x = ", around(scheme.block[Site::input], "embedding")));
  for (const LayerOverride& range : scheme.layers) {
    lines.push_back(say("blocks ", plain(range.from), " ≤ i < ", plain(range.to), ":"));
    block_equations(range.block, lines);
  }
  lines.emplace_back(scheme.layers.empty() ? "each block:" : "all other blocks:");
  block_equations(scheme.block, lines);
  const std::string head = say("E_out ", around(scheme.block[Site::final], "x"));
  lines.push_back(say("logits = ", around(scheme.block[Site::logits], head)));
  return lines;
}

std::vector<SchemeDifference> difference(const Scheme& ours, const Scheme& theirs) {
  const std::vector<SchemeRow> a = describe(ours);
  const std::vector<SchemeRow> b = describe(theirs);
  std::vector<SchemeDifference> found;
  const auto text_in = [](const std::vector<SchemeRow>& rows, const std::string& part) {
    const auto at = std::find_if(
        rows.begin(), rows.end(), [&](const SchemeRow& row) { return row.part == part; });
    return at == rows.end() ? std::string(kNothing) : at->text;
  };
  for (const SchemeRow& row : a) {
    const std::string other = text_in(b, row.part);
    if (other != row.text) found.push_back({row.part, row.text, other});
  }
  for (const SchemeRow& row : b) {
    const bool only_theirs = std::none_of(
        a.begin(), a.end(), [&](const SchemeRow& ours_row) { return ours_row.part == row.part; });
    if (only_theirs) found.push_back({row.part, kNothing, row.text});
  }
  return found;
}

}  // namespace norma
