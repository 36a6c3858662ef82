#include "norma/nn/scheme.h"

#include <algorithm>

#include "norma/base/error.h"
#include "norma/base/read_fields.h"
#include "norma/base/text.h"
#include "norma/ops/l2_norm.h"
#include "norma/ops/layer_norm.h"
#include "norma/ops/rms_norm.h"

namespace norma {

Slot usual_slot(NormKind kind) {
  Slot slot;
  slot.norm = kind;
  switch (kind) {
    case NormKind::none:
    case NormKind::l2:
      break;
    case NormKind::layer:
      slot.gain = GainKind::vector;
      slot.bias = Choice::as_model;
      break;
    case NormKind::rms1:
      slot.gain_init = Formula("0");
      slot.gain = GainKind::vector;
      break;
    case NormKind::batch:
      slot.gain = GainKind::vector;
      slot.bias = Choice::yes;
      break;
    case NormKind::scale:
      slot.gain = GainKind::scalar;
      break;
    case NormKind::rms:
    case NormKind::dyt:
    case NormKind::derf:
    case NormKind::gain:
      slot.gain = GainKind::vector;
      break;
  }
  return slot;
}

double eps_of(const Slot& slot) {
  if (slot.eps != 0) return slot.eps;
  switch (slot.norm) {
    case NormKind::layer:
      return LayerNormSpec{}.eps;
    case NormKind::batch:
      return BatchNormSpec{}.eps;
    case NormKind::rms:
    case NormKind::rms1:
      return RmsNormSpec{}.eps;
    default:
      return L2NormSpec{}.eps;
  }
}

namespace {

void read_slot(SettingsReader& reader,
               const Settings& settings,
               const std::string& key,
               Slot& slot) {
  if (settings.find(say(key, ".norm")) != nullptr) {
    NormKind kind = NormKind::none;
    reader.read_one(say(key, ".norm"), kind);
    slot = usual_slot(kind);
  }
  reader.read(key, slot);
}

void read_block(SettingsReader& reader,
                const Settings& settings,
                const std::string& prefix,
                BlockRule& block) {
  for (const auto& [word, site] : Words<Site>::kAll) {
    read_slot(reader, settings, say(prefix, word), block[site]);
  }
  reader.read(say(prefix, "residual.attn"), block.attn_residual);
  reader.read(say(prefix, "residual.ffn"), block.ffn_residual);
}

void require_decided(const Settings& settings) {
  std::string undecided;
  for (const auto& [word, site] : Words<Site>::kAll) {
    if (settings.find(say(word, ".norm")) == nullptr) {
      undecided += say(undecided.empty() ? "" : ", ", word);
    }
  }
  if (!undecided.empty()) {
    throw RequestError(say("the scheme leaves undecided what sits at ",
                           undecided,
                           "; write \"none\" where nothing does, or start from a base."));
  }
}

bool is_wish(const std::string& key) {
  return key.starts_with("model.") || key.starts_with("optim.") || key.starts_with("schedule.") ||
         key.starts_with("train.");
}

}  // namespace

const BlockRule& Scheme::block_at(Index layer, Index layer_count) const {
  const FormulaVariable count[] = {{"L", static_cast<double>(layer_count)}};
  const auto at = static_cast<double>(layer);
  for (auto range = layers.rbegin(); range != layers.rend(); ++range) {  // later ones win
    if (at >= range->from(count) && at < range->to(count)) return range->block;
  }
  return block;
}

Scheme read_scheme(const Settings& settings) {
  require_decided(settings);
  Scheme scheme;
  SettingsReader reader(settings);
  reader.read_one("name", scheme.name);
  reader.read_one("idea", scheme.idea);
  reader.read_one("source", scheme.source);
  read_block(reader, settings, "", scheme.block);
  reader.read("attention", scheme.attention);
  reader.read("scales", scheme.scales);
  reader.read("weights", scheme.weights);
  reader.read("decay", scheme.decay);
  reader.read_one("init", scheme.init);
  for (Index number = 0;; ++number) {
    const std::string table = say("layers.", number);
    if (settings.below(table).entries().empty()) break;
    LayerOverride range;
    reader.read_one(say(table, ".from"), range.from);
    reader.read_one(say(table, ".to"), range.to);
    range.block = scheme.block;
    read_block(reader, settings, say(table, "."), range.block);
    scheme.layers.push_back(std::move(range));
  }
  for (const Settings::Entry& entry : settings.entries()) {
    if (!is_wish(entry.key)) continue;
    scheme.wishes.set({entry.key, entry.value, say("scheme ", scheme.name)});
    reader.know(entry.key);
  }
  reader.refuse_unknown();
  return scheme;
}

namespace {

/// Complains about one block of a scheme.
class Judge {
 public:
  Judge(const Scheme& scheme, bool causal) : scheme_(scheme), causal_(causal) {}

  void judge(const BlockRule& block) {
    for (const auto& [word, site] : Words<Site>::kAll) judge_slot(site, block[site]);
    if (block[Site::k].gain == GainKind::shared) {
      const Slot& q = block[Site::q];
      if (q.gain == GainKind::none || q.gain == GainKind::shared ||
          q.scope != block[Site::k].scope || q.norm != block[Site::k].norm) {
        fail("k shares the gain of q, so q needs one, with the same norm and scope");
      }
    }
    if (block.attn_residual.rule == Residual::rscale) {
      fail("residual.attn.rule = \"rscale\" is defined for the feed-forward layer only");
    }
  }
  void judge_weights() {
    for (std::size_t i = 0; i < scheme_.weights.of.size(); ++i) {
      const auto kind = static_cast<ParamClass>(i);
      const WeightRule rule = scheme_.weights[kind];
      const bool fixed_length = rule == WeightRule::unit || rule == WeightRule::parametrized;
      if (fixed_length && scheme_.decay[kind]) {
        fail(say("weights.",
                 word_of(kind),
                 " have length 1, so decay only changes their learning rate; set decay.",
                 word_of(kind),
                 " = false"));
      }
      const bool matrix = is_hidden_matrix(kind) || kind == ParamClass::head;
      if (rule == WeightRule::weight_norm && !matrix && kind != ParamClass::embedding) {
        fail(say("weights.", word_of(kind), " cannot be weight-normalized"));
      }
    }
  }
  std::vector<std::string> warnings;

 private:
  void judge_slot(Site site, const Slot& slot) {
    const std::string_view word = word_of(site);
    const bool heads = site == Site::q || site == Site::k || site == Site::v;
    if (!heads && slot.scope != Scope::row) {
      fail(say(word, " has no heads: its scope must be row"));
    }
    if (slot.gain == GainKind::shared && site != Site::k) {
      fail(say("only k can share a gain (with q), not ", word));
    }
    if (slot.norm == NormKind::scale && slot.scope != Scope::row) {
      fail(say(word, ": scale works on whole rows; use l2 with a gain for heads"));
    }
    const bool one_gain = slot.norm == NormKind::scale;
    const bool many_gains = slot.norm == NormKind::layer || slot.norm == NormKind::rms ||
                            slot.norm == NormKind::rms1 || slot.norm == NormKind::batch ||
                            slot.norm == NormKind::dyt || slot.norm == NormKind::derf;
    if ((one_gain && slot.gain == GainKind::vector) ||
        (many_gains && slot.gain == GainKind::scalar)) {
      fail(say(word, ": ", word_of(slot.norm), " has no ", word_of(slot.gain), " gain"));
    }
    if (slot.norm == NormKind::gain && slot.gain == GainKind::none) {
      fail(say(word, ": a gain without a gain is none; say vector or scalar"));
    }
    if (site == Site::logits && slot.norm != NormKind::none && slot.norm != NormKind::gain) {
      fail(say("logits takes none or gain, not ",
               word_of(slot.norm),
               ": the loss is computed in place over the logits"));
    }
    if (slot.norm == NormKind::batch && slot.statistics == BatchStatistics::all && causal_) {
      const std::string why =
          say(word, ": bn over all positions lets a causal model see its future while it trains");
      if (!slot.force) {
        fail(say(why,
                 "; use statistics = \"position\", \"prefix\" or \"running\", or force = true"));
      }
      warnings.push_back(say("scheme ", scheme_.name, ": ", why, "."));
    }
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw RequestError(
        say("scheme ", scheme_.name.empty() ? "of the recipe" : scheme_.name, ": ", why, "."));
  }

  const Scheme& scheme_;
  bool causal_;
};

}  // namespace

std::vector<std::string> judge_scheme(const Scheme& scheme, bool causal) {
  Judge judge(scheme, causal);
  judge.judge(scheme.block);
  for (const LayerOverride& range : scheme.layers) judge.judge(range.block);
  judge.judge_weights();
  return judge.warnings;
}

}  // namespace norma
