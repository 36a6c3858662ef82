// Properties 10 to 13: logits of normed queries and keys, and rotary positions.
#include "norma/ops/attention.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "norma/ops/embedding.h"
#include "norma/ops/l2_norm.h"
#include "norma/ops/linear.h"
#include "norma/ops/qk_rope.h"
#include "norma/ops/residual.h"
#include "norma/ops/rms_norm.h"
#include "norma/tensor/plain.h"
#include "tests/properties/tiny_gpt.h"
#include "tests/support/expect.h"
#include "tests/support/run_op.h"

namespace norma::test {
namespace {

constexpr Index kHead = 8;

TEST(Property, P10_RmsOverRootDIsTheUnitRuleTimesRootD) {
  const std::string rms =
      "base = \"pre-rms\"\n"
      "q = { norm = \"rms\", scope = \"head\", gain = \"none\", eps = 1e-30 }\n"
      "k = { norm = \"rms\", scope = \"head\", gain = \"none\", eps = 1e-30 }\n";
  const std::string unit =
      "base = \"pre-rms\"\n"
      "q = { norm = \"l2\", scope = \"per_head\", gain = \"vector\", eps = 1e-30 }\n"
      "k = { norm = \"l2\", scope = \"per_head\", gain = \"shared\", eps = 1e-30 }\n"
      "[attention]\nscale = \"sqrt(dh)\"\nqk_after_rope = true\n";
  for (const DType dtype : {DType::f64, DType::f32}) {
    for (const char* heads : {"kv_heads = 4", "kv_heads = 2"}) {
      TinyGpt of_rms(rms, {.dtype = dtype, .model = heads});
      TinyGpt of_unit(unit, {.dtype = dtype, .model = heads});
      for (const char* name : {"blocks.0.q.gain", "blocks.1.q.gain"}) fill(of_unit.value(name), 1);
      EXPECT_LE(distance(of_unit.logits().tensor, of_rms.logits().tensor),
                dtype == DType::f64 ? 1e-10 : 2e-5);
      fill(of_unit.value("blocks.0.q.gain"), 1.2);
      EXPECT_GT(distance(of_unit.logits().tensor, of_rms.logits().tensor), 1e-3);
    }
  }
}

/// The same two rules, each against ops put together by hand: a factor common to both would hide.
TEST(Property, P10_BothRulesAreWhatTheModelComputes) {
  const auto scheme = [](const char* norm_of, const char* factor) {
    const std::string slot =
        say("{ norm = \"", norm_of, "\", scope = \"head\", gain = \"none\", eps = 1e-30 }\n");
    return say("base = \"no-norm\"\nq = ", slot, "k = ", slot, "attention.scale = ", factor);
  };
  for (const bool rms : {true, false}) {
    TinyGpt at(rms ? scheme("rms", "\"1/sqrt(dh)\"") : scheme("l2", "\"sqrt(dh)\""),
               {.model = "layers = 1\npositions = \"none\""});
    fill(at.value("blocks.0.ffn.down.weight"), 0);
    const OwnedTensor want = run_op([&](Tape& tape) {
      const auto weight = [&](const char* name) { return tape.constant(at.value(name)); };
      const Var x = embedding(tape.constant(at.ids.tensor), weight("embed.tokens"), {});
      const auto prepared = [&](const char* name) {
        const Var v = linear(x, weight(name));
        return rms ? rms_norm(v, {}, {.eps = 1e-30, .group = 12})
                   : l2_norm(v, {}, {.eps = 1e-30, .group = 12});
      };
      const double root = std::sqrt(12.0);
      const Var o = attention(prepared("blocks.0.attn.q.weight"),
                              prepared("blocks.0.attn.k.weight"),
                              linear(x, weight("blocks.0.attn.v.weight")),
                              {.heads = 4, .kv_heads = 2, .scale = rms ? 1 / root : root});
      return residual_add(x, linear(o, weight("blocks.0.attn.out.weight")));
    });
    EXPECT_TRUE(close(at.streams().front().tensor,
                      want.tensor.reshaped({TinyGpt::kBatch * TinyGpt::kTokens, 48}),
                      1e-10));
  }
}

/// The norms of queries that forget their scale, by the width they see.
struct QueryNorm {
  const char* toml;
  bool by_head;
};
const QueryNorm kQueryNorms[] = {
    {"base = \"pre-rms\"\nq = { norm = \"l2\", scope = \"per_head\", eps = 1e-30 }\n", true},
    {"base = \"pre-rms\"\nq = { norm = \"rms\", scope = \"head\", eps = 1e-30 }\n", true},
    {"base = \"pre-ln\"\nq = { norm = \"ln\", scope = \"head\", eps = 1e-30 }\n", true},
    {"base = \"pre-rms\"\nq = { norm = \"rms\", scope = \"row\", eps = 1e-30 }\n", false},
    {"base = \"ngpt\"\nq.eps = 1e-30\nk.eps = 1e-30\n", true},
};

TEST(Property, P11_QNormHidesTheScaleOfWq) {
  const std::string name = "blocks.1.attn.q.weight";
  constexpr double kFactor = 3.7;
  for (const QueryNorm& norm_of : kQueryNorms) {
    SCOPED_TRACE(norm_of.toml);
    TinyGpt plain(norm_of.toml);
    TinyGpt scaled(norm_of.toml);
    const Index head = plain.spec().head();
    const Index first = norm_of.by_head ? 2 * head : 0;
    const Index rows = norm_of.by_head ? head : plain.value(name).shape.rows();
    scale(scaled.value_rows(name, first, rows), kFactor);
    EXPECT_NEAR(scaled.backward(), plain.backward(), 1e-10);
    EXPECT_LE(distance(scaled.logits().tensor, plain.logits().tensor), 1e-10);
    EXPECT_LE(gradient_distance(scaled, plain, {name}), 1e-10);
    // dW_q of the scaled head divides by the factor, that of the others stays.
    scale(scaled.grad_rows(name, first, rows), kFactor);
    EXPECT_LE(distance(scaled.grad(name), plain.grad(name)), 1e-10);
    EXPECT_GT(norm(plain.grad_rows(name, first, rows)), 1e-6);
  }
}

TEST(Property, P11_WithoutQNormTheScaleOfWqIsSeen) {
  for (const char* toml : {"base = \"pre-rms\"\n", "base = \"ngpt-no-qk-norm\"\n"}) {
    TinyGpt plain(toml);
    TinyGpt scaled(toml);
    const Index head = plain.spec().head();
    scale(scaled.value_rows("blocks.1.attn.q.weight", 2 * head, head), 3.7);
    plain.backward();
    scaled.backward();
    EXPECT_GT(distance(scaled.logits().tensor, plain.logits().tensor), 1e-3);
    EXPECT_GT(gradient_distance(scaled, plain, {"blocks.1.attn.q.weight"}), 1e-3);
  }
}

/// ⟨R_p q, R_s k⟩ after the norm, gain and layout of `spec` and `table`.
class Score {
 public:
  Score(RopeLayout layout, DType dtype, QkRopeSpec spec, const Tensor& gain = {})
      : table_({.head = kHead, .layout = layout}, 64, dtype),
        spec_(spec),
        gain_(gain),
        q_(normals({1, 1, kHead}, dtype, 1)),
        k_(normals({1, 1, kHead}, dtype, 2)) {}

  double operator()(Index p, Index s) const {
    return dot(turned(q_.tensor, p).tensor, turned(k_.tensor, s).tensor);
  }
  /// Worst relative change of the score when both positions move by 10.
  double shift_error() const {
    double worst = 0;
    for (const Index p : {0, 3, 17, 40}) {
      for (const Index s : {1, 8, 33}) {
        const double size = norm(turned(q_.tensor, p).tensor) * norm(turned(k_.tensor, s).tensor);
        worst = std::max(worst, std::abs((*this)(p + 10, s + 10) - (*this)(p, s)) / size);
      }
    }
    return worst;
  }
  /// Worst | |R_p q| / |q| − 1 |.
  double length_error() const {
    double worst = 0;
    for (const Index p : {0, 1, 30, 63}) {
      const double ratio = norm(turned(q_.tensor, p).tensor) / norm(q_.tensor);
      worst = std::max(worst, std::abs(ratio - 1));
    }
    return worst;
  }

 private:
  OwnedTensor turned(const Tensor& x, Index position) const {
    QkRopeSpec spec = spec_;
    spec.offset = position;
    return run_op([&](Tape& tape) {
      return qk_rope(tape.constant(x), gain_ ? tape.constant(gain_) : Var{}, table_, spec);
    });
  }
  RopeTable table_;
  QkRopeSpec spec_;
  Tensor gain_;
  OwnedTensor q_, k_;
};

TEST(Property, P12_RopeKeepsLengthsAndSeesOnlyDistance) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const double limit = dtype == DType::f64 ? 1e-10 : 1e-6;
    for (const RopeLayout layout : {RopeLayout::interleaved, RopeLayout::half_split}) {
      const Score plain(layout, dtype, {.norm = HeadNorm::none});
      EXPECT_LE(plain.length_error(), limit);
      EXPECT_LE(plain.shift_error(), limit);
      EXPECT_GT(std::abs(plain(5, 1) - plain(2, 1)), 1e-2) << "the distance itself is seen";
      EXPECT_LE(Score(layout, dtype, {.norm = HeadNorm::l2}).shift_error(), limit);
    }
    const Score defect(RopeLayout::nvidia_defect, dtype, {.norm = HeadNorm::none});
    EXPECT_GT(defect.length_error(), 0.1);
    EXPECT_GT(defect.shift_error(), 1e-2);
  }
}

TEST(Property, P12_GainsAfterRopeMustBeTiedWithinPairs) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const double limit = dtype == DType::f64 ? 1e-10 : 1e-6;
    const OwnedTensor gain = normals({kHead}, dtype, 3);
    const auto tied_at = [&](auto&& pair_of) {
      return tabulated(
          {kHead}, dtype, [&](Index, Index c) { return value_at(gain.tensor, 0, pair_of(c)); });
    };
    const OwnedTensor neighbours = tied_at([](Index c) { return c / 2; });
    const OwnedTensor halves = tied_at([](Index c) { return c % (kHead / 2); });
    EXPECT_LE(Score(RopeLayout::interleaved, dtype, {}, neighbours.tensor).shift_error(), limit);
    EXPECT_LE(Score(RopeLayout::half_split, dtype, {}, halves.tensor).shift_error(), limit);
    EXPECT_GT(Score(RopeLayout::interleaved, dtype, {}, gain.tensor).shift_error(), 1e-3);
    EXPECT_GT(Score(RopeLayout::interleaved, dtype, {}, halves.tensor).shift_error(), 1e-3);
  }
}

/// The whole model in the same words: tokens at positions 0.. or further on give the same logits.
TEST(Property, P12_PairTiedNgptDoesNotKnowWhereItStarts) {
  const auto shift_error = [](const std::string& toml, const std::string& rope) {
    TinyGpt at(toml, {.model = "context = 40\nrope = \"" + rope + "\""});
    Tape tape;
    const auto logits_at = [&](Index offset) {
      tape.reset();
      return copy_of(at.model().logits(tape, at.ids.tensor, {.offset = offset}).value());
    };
    return distance(logits_at(10).tensor, logits_at(0).tensor);
  };
  const std::string tied = "base = \"ngpt\"\nattention.pair_tied = true\n";
  EXPECT_LE(shift_error(tied, "interleaved"), 1e-10);
  EXPECT_LE(shift_error("base = \"pre-rms\"", "half_split"), 1e-10);
  EXPECT_GT(shift_error("base = \"ngpt\"", "interleaved"), 1e-4);
  EXPECT_GT(shift_error("base = \"pre-rms\"", "nvidia_defect"), 1e-4);
}

TEST(Property, P13_NgptLogitsAreBoundedByTheSquareOfTheLargestScale) {
  constexpr Index kTokens = 40;
  const RopeTable table({.head = kHead}, kTokens, DType::f64);
  const double root = std::sqrt(static_cast<double>(kHead));
  const OwnedTensor gain = normals({kHead}, DType::f64, 3, 1.5);
  double most = 0;
  for (Index c = 0; c < kHead; ++c) {
    most = std::max(most, std::abs(value_at(gain.tensor, 0, c)));
  }
  const auto prepared = [&](const Tensor& x) {
    return run_op([&](Tape& tape) {
      return qk_rope(tape.constant(x), tape.constant(gain.tensor), table, {});
    });
  };
  const OwnedTensor q = prepared(normals({1, kTokens, kHead}, DType::f64, 1, 5).tensor);
  const OwnedTensor k = prepared(normals({1, kTokens, kHead}, DType::f64, 2, 5).tensor);
  double largest = 0;
  for (Index i = 0; i < kTokens; ++i) {
    for (Index j = 0; j < kTokens; ++j) {
      double logit = 0;
      for (Index c = 0; c < kHead; ++c) {
        logit += root * value_at(q.tensor, i, c) * value_at(k.tensor, j, c);
      }
      largest = std::max(largest, std::abs(logit));
    }
  }
  EXPECT_LE(largest, root * most * most);
  EXPECT_GT(largest, 0.4 * root * most * most) << "the bound is of the right size";
}

/// The largest probability of any row, read off with one-hot values.
double largest_probability(const Tensor& q, const Tensor& k, AttentionSpec spec) {
  const Index keys = k.shape[1];
  const OwnedTensor one_hot =
      tabulated({1, keys, keys}, q.dtype, [](Index r, Index c) { return r == c ? 1.0 : 0.0; });
  const OwnedTensor p = run_op([&](Tape& tape) {
    return attention(tape.constant(q), tape.constant(k), tape.constant(one_hot.tensor), spec);
  });
  double most = 0;
  for_each_place(p.tensor.shape,
                 [&](Index r, Index c) { most = std::max(most, value_at(p.tensor, r, c)); });
  return most;
}

TEST(Property, P13_BoundedLogitsBoundTheLargestProbability) {
  constexpr Index kKeys = 9;  // as wide as there are keys, so that one-hot values fit
  for (const double tau : {0.5, 2.0, 3.0}) {
    const double bound = 1 / (1 + (kKeys - 1) * std::exp(-2 * tau));
    const AttentionSpec spec{.mask = Mask::full, .scale = tau};
    for (std::uint64_t stream = 0; stream < 10; ++stream) {
      const auto unit = [&](std::uint64_t which) {
        const OwnedTensor x = normals({1, kKeys, kKeys}, DType::f64, 2 * stream + which);
        return run_op([&](Tape& tape) { return l2_norm(tape.constant(x.tensor), {}); });
      };
      EXPECT_LE(largest_probability(unit(0).tensor, unit(1).tensor, spec), bound);
    }
    // One key along the query, all others against it: the bound is reached.
    const OwnedTensor q =
        tabulated({1, kKeys, kKeys}, DType::f64, [](Index, Index c) { return c == 0 ? 1.0 : 0.0; });
    const OwnedTensor k = tabulated({1, kKeys, kKeys}, DType::f64, [](Index r, Index c) {
      return c > 0 ? 0.0 : r == 4 ? 1.0 : -1.0;
    });
    EXPECT_NEAR(largest_probability(q.tensor, k.tensor, spec), bound, 1e-12);
  }
}

}  // namespace
}  // namespace norma::test
