// Properties 29 to 31: schemes that are the same thing in other words, and how many parameters
// they have.
#include <cmath>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "norma/ops/gated.h"
#include "norma/ops/linear.h"
#include "norma/ops/residual.h"
#include "norma/ops/rms_norm.h"
#include "norma/tensor/plain.h"
#include "tests/properties/tiny_gpt.h"
#include "tests/support/expect.h"
#include "tests/support/run_op.h"

namespace norma::test {
namespace {

/// Both models compute the same logits and the same loss with the same gradients.
void expect_same_function(TinyGpt& got, TinyGpt& want, double limit) {
  EXPECT_LE(distance(got.logits().tensor, want.logits().tensor), limit);
  EXPECT_NEAR(got.backward(), want.backward(), limit);
  EXPECT_LE(gradient_distance(got, want), limit);
}

TEST(Property, P29_HybridNormAsItsPaperWritesIt) {
  // x' = N(y) + FFN(N(y)), from the y of the same block without its norm and with W_2 = 0.
  TinyGpt block("base = \"hybridnorm\"", {.model = "layers = 1"});
  TinyGpt before("base = \"hybridnorm\"\nattn_post = \"none\"", {.model = "layers = 1"});
  fill(before.value("blocks.0.ffn.down.weight"), 0);
  const OwnedTensor y = std::move(before.streams().front());
  const OwnedTensor want = run_op([&](Tape& tape) {
    const auto weight = [&](const char* name) { return tape.constant(block.value(name)); };
    const Var n =
        rms_norm(tape.constant(y.tensor), weight("blocks.0.attn_post.gain"), {.eps = 1e-5});
    const Var z = gated(linear(n, weight("blocks.0.ffn.up.weight")),
                        linear(n, weight("blocks.0.ffn.gate.weight")),
                        {},
                        {});
    return residual_add(n, linear(z, weight("blocks.0.ffn.down.weight")));
  });
  EXPECT_LE(distance(block.streams().front().tensor, want.tensor), 1e-10);
}

TEST(Property, P29_SlotsThatDefineOneSchemeByAnother) {
  const auto block = [](const std::string& toml) { return scheme_of(toml).block; };
  const std::string qk =
      "q = { norm = \"rms\", scope = \"head\" }\nk = { norm = \"rms\", scope = \"head\" }\n";
  const std::string whole_qk =
      "q = { norm = \"rms\", scope = \"row\" }\nk = { norm = \"rms\", scope = \"row\" }\n";
  const std::string no_pre = "attn_pre = \"none\"\nffn_pre = \"none\"\n";
  EXPECT_EQ(block("base = \"sandwich\"\ninput = \"rms\"\nattn_pre = \"rms\"\nattn_mid = \"rms\"\n"
                  "ffn_pre = \"rms\"\nffn_mid = \"rms\"\nfinal = \"rms\""),
            block("base = \"peri-ln\""));
  EXPECT_EQ(block("base = \"peri-ln\"\ninput = \"none\"\n" + no_pre + whole_qk),
            block("base = \"olmo2\""));
  EXPECT_EQ(block("base = \"peri-ln\"\n" + qk), block("base = \"dnt-s4\""));
  EXPECT_EQ(block("base = \"dnt-s4\"\nffn_pre = \"none\""), block("base = \"dnt-s5\""));
  EXPECT_EQ(block("base = \"dnt\""), block("base = \"dnt-s5\""));
  EXPECT_EQ(block("base = \"pre-rms\""), block("base = \"dnt-s1\""));
  EXPECT_FALSE(block("base = \"dnt-s4\"") == block("base = \"dnt-s5\""));
}

TEST(Property, P29_TheSameSlotsAreTheSameFunction) {
  const std::string qk =
      "q = { norm = \"rms\", scope = \"head\" }\nk = { norm = \"rms\", scope = \"head\" }\n";
  const TinyGptSpec shape{.model = "ffn = \"gelu\"\npositions = \"learned\"\ntied = true"};
  TinyGpt s4("base = \"dnt-s4\"", shape);
  TinyGpt peri("base = \"peri-ln\"\n" + qk, shape);
  expect_same_function(peri, s4, 1e-12);
  TinyGpt s5("base = \"dnt-s5\"", shape);
  EXPECT_GT(distance(s5.logits().tensor, s4.logits().tensor), 1e-2);
}

// A product adds its branch to the stream only where nothing lies between.
TEST(Property, P29_FactorsOfABranchAreThoseOfItsLastMatrix) {
  constexpr double kAttn = 0.5;
  constexpr double kFfn = 1.25;
  const auto expect_scaled_matrices = [&](TinyGpt& got) {
    TinyGpt plain("base = \"pre-rms\"");
    plain.scale_all("attn.out.weight", kAttn);
    plain.scale_all("ffn.down.weight", kFfn);
    EXPECT_LE(distance(got.logits().tensor, plain.logits().tensor), 1e-12);
    EXPECT_NEAR(got.backward(), plain.backward(), 1e-12);
    std::vector<std::string> judged_here;
    for (Index layer = 0; layer < plain.spec().layers; ++layer) {
      for (const auto& [name, factor] : {std::pair{"attn.out", kAttn}, {"ffn.down", kFfn}}) {
        const std::string weight = say("blocks.", layer, ".", name, ".weight");
        scale(plain.grad(weight), factor);
        EXPECT_LE(distance(got.grad(weight), plain.grad(weight)), 1e-12) << weight;
        judged_here.push_back(weight);
      }
      for (const char* sublayer : {"attn", "ffn"}) {
        judged_here.push_back(say("blocks.", layer, ".", sublayer, ".layer_scale"));
      }
    }
    EXPECT_LE(gradient_distance(got, plain, judged_here), 1e-12);
  };
  TinyGpt factors("base = \"pre-rms\"\n[scales]\nattn_out = 0.5\ndown = 1.25");
  expect_scaled_matrices(factors);
  TinyGpt vectors("base = \"pre-rms\"", {.model = "layer_scale = 0.1"});
  for (Index layer = 0; layer < vectors.spec().layers; ++layer) {
    fill(vectors.value(say("blocks.", layer, ".attn.layer_scale")), kAttn);
    fill(vectors.value(say("blocks.", layer, ".ffn.layer_scale")), kFfn);
  }
  expect_scaled_matrices(vectors);
}

TEST(Property, P29_DeepNormWithoutItsConstantsIsPostNorm) {
  const std::string plain =
      "base = \"deepnorm\"\nresidual = { rule = \"scaled\", scale = 1 }\ninit = \"gpt2\"";
  TinyGpt post("base = \"post-ln\"", {.at_start = true});
  TinyGpt same(plain, {.at_start = true});
  expect_same_function(same, post, 1e-12);
  TinyGpt deep("base = \"deepnorm\"\ninit = \"gpt2\"", {.at_start = true});
  EXPECT_GT(distance(deep.logits().tensor, post.logits().tensor), 1e-3);
}

TEST(Property, P29_MixLnBetweenItsEnds) {
  const auto mixed = [](const char* to) {
    return say(
        "base = \"pre-rms\"\n[[layers]]\nfrom = 0\nto = \"",
        to,
        "\"\nattn_pre = \"none\"\nattn_post = \"rms\"\nffn_pre = \"none\"\nffn_post = \"rms\"\n");
  };
  TinyGpt none(mixed("floor(0*L)"));
  TinyGpt pre("base = \"pre-rms\"");
  expect_same_function(none, pre, 1e-12);
  TinyGpt all(mixed("floor(1*L)"));
  TinyGpt post(
      "base = \"pre-rms\"\nattn_pre = \"none\"\nattn_post = \"rms\"\n"
      "ffn_pre = \"none\"\nffn_post = \"rms\"\n");  // and the final norm
  expect_same_function(all, post, 1e-12);
  // The built-in scheme at a quarter: one of four blocks.
  TinyGpt quarter("base = \"mix-ln\"", {.model = "layers = 4"});
  TinyGpt one(mixed("1"), {.model = "layers = 4"});
  expect_same_function(one, quarter, 1e-12);
}

TEST(Property, P29_BlocksOfSwinStartAsTheIdentity) {
  TinyGpt at("base = \"swin-v2\"", {.at_start = true});
  const std::vector<OwnedTensor> streams = at.streams();
  ASSERT_EQ(streams.size(), 2U);
  EXPECT_TRUE(matches(
      streams[0].tensor,
      [&](Index r, Index c) {
        const std::int32_t id = at.ids.tensor.elements<std::int32_t>()[static_cast<std::size_t>(r)];
        return value_at(at.value("embed.tokens"), id, c) +
               value_at(at.value("embed.positions"), r % TinyGpt::kTokens, c);
      },
      1e-15));
  EXPECT_TRUE(same_bits(streams[1].tensor, streams[0].tensor));
}

TEST(Property, P29_Rms1IsRmsWithOneMore) {
  TinyGpt one("base = \"gemma3\"");
  const std::string slots =
      "attn_pre = \"rms\"\nattn_mid = \"rms\"\nffn_pre = \"rms\"\nffn_mid = \"rms\"\n"
      "final = \"rms\"\nq = { norm = \"rms\", scope = \"head\" }\n"
      "k = { norm = \"rms\", scope = \"head\" }\n";
  TinyGpt plain("base = \"gemma3\"\n" + slots);
  for (const Param& param : plain.params().params()) {
    if (param.tags.kind != ParamClass::gain) continue;
    const Tensor from = one.value(param.name);
    const Tensor to = plain.params().value(param);
    for (Index i = 0; i < to.count(); ++i) set_value(to, 0, i, 1 + value_at(from, 0, i));
  }
  expect_same_function(one, plain, 1e-12);
}

/// The two more norms before W_o and W_2 scale whole tokens, which the norm behind W_o and W_2
/// forgets: in exact arithmetic they do nothing.
TEST(Property, P29_InnerNormsOfNgptAreInvisible) {
  TinyGpt plain("base = \"ngpt\"");
  TinyGpt inner("base = \"ngpt-inner\"");
  expect_same_function(inner, plain, 1e-9);
}

TEST(Property, P30_WeightNormStartsAsTheFreeModel) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    TinyGpt free("base = \"pre-rms\"", {.dtype = dtype, .at_start = true});
    TinyGpt normed("base = \"weight-norm\"", {.dtype = dtype, .at_start = true});
    EXPECT_LE(distance(normed.logits().tensor, free.logits().tensor),
              dtype == DType::f64 ? 1e-12 : 1e-6);
    EXPECT_NEAR(normed.backward(), free.backward(), 1e-6);
    // dg = ⟨dW, v/|v|⟩ and dv ⟂ v, row by row.
    for (const char* name : {"blocks.0.attn.k", "blocks.1.ffn.down", "head"}) {
      const std::string weight = say(name, ".weight");
      for (Index r = 0; r < normed.value(weight).shape.rows(); ++r) {
        const Tensor v = normed.value_rows(weight, r, 1);
        const Tensor dv = normed.grad_rows(weight, r, 1);
        const Tensor dw = free.grad_rows(weight, r, 1);
        const double limit = dtype == DType::f64 ? 1e-10 : 1e-4;
        ASSERT_LE(std::abs(dot(v, dv)), limit * norm(v) * norm(dw)) << name << " row " << r;
        ASSERT_NEAR(value_at(normed.grad(say(name, ".magnitude")), 0, r),
                    dot(dw, v) / norm(v),
                    limit * norm(dw));
        ASSERT_NEAR(value_at(normed.value(say(name, ".magnitude")), 0, r), norm(v), 1e-6);
      }
    }
  }
}

TEST(Property, P30_AWeightNormalizedTableStartsAsTheFreeOneToo) {
  TinyGpt free("base = \"pre-rms\"", {.at_start = true});
  TinyGpt normed(
      "base = \"weight-norm\"\nweights.embedding = \"weight_norm\"\n"
      "decay.embedding = false\n",
      {.at_start = true});
  EXPECT_LE(distance(normed.logits().tensor, free.logits().tensor), 1e-12);
}

/// Declares a model, allocates nothing, and counts.
Index parameters_of(const std::string& scheme, const ModelSpec& spec) {
  ParamStore params;
  const Gpt model(spec, scheme_of("base = \"" + scheme + "\""), params);
  return params.count();
}

struct Gpt2Shape {
  Index layers, width, heads;
  double millions;
};

TEST(Property, P31_Gpt2ShapesHaveTheirPublishedParameterCounts) {
  for (const Gpt2Shape& shape :
       {Gpt2Shape{12, 768, 12, 123.57}, {36, 1280, 20, 772.18}, {48, 1536, 24, 1436.22}}) {
    const Index d = shape.width;
    const ModelSpec spec{
        .layers = shape.layers, .width = d, .heads = shape.heads, .context = 1024, .vocab = 50304};
    const Index matrices = 12 * shape.layers * d * d + spec.vocab * d;
    EXPECT_NEAR(static_cast<double>(matrices) / 1e6, shape.millions, 0.005);
    const Index positions = spec.context * d;
    // Norms before attention, before the feed-forward layer, and at the end.
    EXPECT_EQ(parameters_of("pre-ln", spec), matrices + positions + (2 * shape.layers + 1) * d);
    // DNT: input, pre, two mid and final norms, and two of the width of a head.
    EXPECT_EQ(parameters_of("dnt", spec),
              matrices + positions + shape.layers * (3 * d + 2 * d / shape.heads) + 2 * d);
  }
}

TEST(Property, P31_NgptAddsItsScales) {
  const ModelSpec spec{.layers = 24,
                       .width = 1024,
                       .heads = 16,
                       .context = 1024,
                       .vocab = 50304,
                       .positions = Positions::rope,
                       .ffn = FfnKind::swiglu,
                       .tied = false};
  const Index d = spec.width;
  const Index f = 4 * d;
  const Index matrices = spec.layers * (4 * d * d + 3 * d * f) + 2 * spec.vocab * d;
  const Index scales = spec.layers * (2 * d + spec.heads * 64 + 2 * f) + spec.vocab;
  EXPECT_EQ(parameters_of("ngpt", spec), matrices + scales);
  EXPECT_EQ(parameters_of("pre-rms", spec), matrices + (2 * spec.layers + 1) * d);
  // α, s_qk, s_u, s_v as one number each, and one for the logits.
  EXPECT_EQ(parameters_of("ngpt-scalar-scales", spec), matrices + spec.layers * 5 + 1);
}

}  // namespace
}  // namespace norma::test
