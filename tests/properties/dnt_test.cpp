// Properties 16 to 20: the propositions behind DNT.
#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "norma/ops/activation.h"
#include "norma/ops/add_norm.h"
#include "norma/ops/attention.h"
#include "norma/ops/linear.h"
#include "norma/ops/rms_norm.h"
#include "norma/tensor/plain.h"
#include "tests/properties/tiny_gpt.h"
#include "tests/support/expect.h"
#include "tests/support/run_op.h"

namespace norma::test {
namespace {

constexpr double kNoEps = 1e-30;

TEST(Property, P16_BehindAnInputNormTheScaleOfTheEmbeddingIsGone) {
  for (const char* base : {"dnt-s3", "dnt-s5", "embedding-norm", "peri-ln"}) {
    for (const double factor : {0.1, 16.0}) {
      SCOPED_TRACE(say(base, " times ", factor));
      const std::string toml = say("base = \"", base, "\"\ninput.eps = 1e-30\n");
      TinyGpt plain(toml, {.model = "tied = false"});
      TinyGpt scaled(toml, {.model = "tied = false"});
      std::vector<std::string> tables = {"embed.tokens"};
      if (plain.spec().positions == Positions::learned) tables.emplace_back("embed.positions");
      for (const std::string& table : tables) scale(scaled.value(table), factor);
      EXPECT_NEAR(scaled.backward(), plain.backward(), 1e-10);
      EXPECT_LE(distance(scaled.logits().tensor, plain.logits().tensor), 1e-10);
      EXPECT_LE(gradient_distance(scaled, plain, tables), 1e-10);
      for (const std::string& table : tables) {
        scale(scaled.grad(table), factor);
        EXPECT_LE(distance(scaled.grad(table), plain.grad(table)), 1e-10);
      }
    }
  }
}

/// |gradient| of all parameters of a block.
double block_gradient(const TinyGpt& at, Index layer) {
  double squares = 0;
  for (const Param& param : at.params().params()) {
    if (param.name.starts_with(say("blocks.", layer, "."))) {
      squares += std::pow(norm(at.params().grad(param)), 2);
    }
  }
  return std::sqrt(squares);
}

/// From the start values: the law needs branches that are small beside the embedding. (With
/// matrices of unit gain the last block's gradient first grows by 1 %.)
TEST(Property, P16_WithoutItLargeEmbeddingsShrinkTheGradientOfEveryBlock) {
  for (const char* base : {"pre-rms", "pre-ln"}) {
    constexpr Index kLayers = 3;
    std::array<double, kLayers> former{};
    for (const double factor : {1.0, 4.0, 16.0}) {
      TinyGpt at(say("base = \"", base, "\""),
                 {.model = "tied = false\nlayers = 3", .at_start = true});
      at.scale_all("embed.tokens", factor);
      at.scale_all("embed.positions", factor);
      at.backward();
      for (Index layer = 0; layer < kLayers; ++layer) {
        const double size = block_gradient(at, layer);
        double& last = former[static_cast<std::size_t>(layer)];
        if (factor > 1) {
          EXPECT_LT(size, 0.3 * last) << base << " block " << layer << " at " << factor;
        }
        last = size;
      }
    }
  }
}

/// Y = attention of pre-normed tokens: what DNT's second proposition is about.
struct PreNormAttention {
  TestLeaf x{{1, 7, 12}, DType::f64, 1};
  TestLeaf gain{{12}, DType::f64, 2};
  TestLeaf wq{{12, 12}, DType::f64, 3, 0.4};
  TestLeaf wk{{12, 12}, DType::f64, 4, 0.4};
  TestLeaf wv{{12, 12}, DType::f64, 5, 0.4};
  OwnedTensor seed = normals({1, 7, 12}, DType::f64, 6);
  OwnedTensor operator()() {
    return run_op(
        [&](Tape& tape) {
          const Var n = rms_norm(tape.watch(x), tape.watch(gain), {.eps = kNoEps});
          return attention(linear(n, tape.watch(wq)),
                           linear(n, tape.watch(wk)),
                           linear(n, tape.watch(wv)),
                           {.heads = 3});
        },
        seed.tensor);
  }
};

/// The paper's form, equal Jacobians with respect to X and X', holds for the normalized input only.
TEST(Property, P17_TokensMayBeScaledOneByOneBeforeAPreNorm) {
  PreNormAttention plain;
  PreNormAttention scaled;
  const auto factor = [](Index token) { return 0.3 + 1.7 * static_cast<double>(token); };
  for_each_place(scaled.x.value.shape, [&](Index r, Index c) {
    set_value(scaled.x.value, r, c, factor(r) * value_at(plain.x.value, r, c));
  });
  EXPECT_LE(distance(scaled().tensor, plain().tensor), 1e-10);
  EXPECT_GT(distance(scaled.x.grad, plain.x.grad), 0.1);
  for_each_place(scaled.x.grad.shape, [&](Index r, Index c) {
    set_value(scaled.x.grad, r, c, factor(r) * value_at(scaled.x.grad, r, c));
  });
  EXPECT_LE(distance(scaled.x.grad, plain.x.grad), 1e-10);
  EXPECT_LE(distance(scaled.wv.grad, plain.wv.grad), 1e-10);
}

std::string mid_normed(const char* base) {
  return say("base = \"", base, "\"\nattn_mid.eps = 1e-30\nffn_mid.eps = 1e-30\n");
}

/// How far the logits move when a matrix of every block is scaled by 3.
double effect_of_scaling(const std::string& toml, const std::string& model, const char* ending) {
  TinyGpt plain(toml, {.model = model});
  TinyGpt scaled(toml, {.model = model});
  EXPECT_EQ(scaled.scale_all(ending, 3), 2) << ending;
  return distance(scaled.logits().tensor, plain.logits().tensor);
}

TEST(Property, P18_AMidNormHidesTheScaleOfWhatIsHomogeneousBeforeIt) {
  for (const char* base : {"dnt-s4", "dnt-s5", "olmo2"}) {
    for (const FfnKind kind : {FfnKind::relu,
                               FfnKind::relu2,
                               FfnKind::gelu,
                               FfnKind::gelu_tanh,
                               FfnKind::silu,
                               FfnKind::swiglu,
                               FfnKind::geglu}) {
      SCOPED_TRACE(say(base, " ", word_of(kind)));
      const std::string toml = mid_normed(base);
      const std::string model = say("ffn = \"", word_of(kind), "\"");
      const auto effect = [&](const char* ending) {
        return effect_of_scaling(toml, model, ending);
      };
      EXPECT_LE(effect("ffn.down.weight"), 1e-10);
      EXPECT_LE(effect("attn.v.weight"), 1e-10);
      EXPECT_LE(effect("attn.out.weight"), 1e-10);
      const bool homogeneous = kind == FfnKind::relu || kind == FfnKind::relu2 || is_gated(kind);
      if (homogeneous) {
        EXPECT_LE(effect("ffn.up.weight"), 1e-10);
      } else {
        EXPECT_GT(effect("ffn.up.weight"), 1e-3);
      }
      if (is_gated(kind)) {
        EXPECT_GT(effect("ffn.gate.weight"), 1e-3);
      }
    }
  }
  EXPECT_GT(effect_of_scaling("base = \"pre-rms\"", "", "ffn.down.weight"), 1e-3);
  EXPECT_GT(effect_of_scaling("base = \"pre-rms\"", "", "attn.v.weight"), 1e-3);
}

/// The largest singular value, by power iteration.
double largest_singular_value(const Tensor& w) {
  TestLeaf weight(copy_of(w));
  TestLeaf x(normals({1, w.shape.cols()}, w.dtype, 77));
  double size = 0;
  for (int i = 0; i < 60; ++i) {
    scale(x.value, 1 / norm(x.value));
    // The gradient of ½|W x|² is Wᵀ W x.
    Tape tape;
    x.fresh = true;
    const Var y = linear(tape.watch(x), tape.constant(weight.value));
    const OwnedTensor seed = copy_of(y.value());
    size = norm(seed.tensor);
    tape.backward({&y, 1}, {&seed.tensor, 1}, {});
    copy(x.grad, x.value);
  }
  return size;
}

TEST(Property, P18_ASpectralNormAgainstARandomProduct) {
  for (const auto& [m, n] : {std::pair{Index{300}, Index{300}}, {Index{320}, Index{640}}}) {
    for (const double spread : {1.0, 0.2}) {
      const OwnedTensor w = normals({m, n}, DType::f64, 1, 0.05);
      const OwnedTensor x = normals({20, n}, DType::f64, 2, spread);
      const OwnedTensor y = run_op(
          [&](Tape& tape) { return linear(tape.constant(x.tensor), tape.constant(w.tensor)); });
      const double product = norm(y.tensor) / std::sqrt(20);  // root mean square of 20 draws
      const double rows = std::sqrt(static_cast<double>(m));
      const double cols = std::sqrt(static_cast<double>(n));
      const double want = (rows + cols) / (rows * cols * spread);
      EXPECT_NEAR(largest_singular_value(w.tensor) / product, want, 0.05 * want);
    }
  }
}

TEST(Property, P19_APostNormDividesTheGradientByTheSizeOfItsInput) {
  constexpr Index kWidth = 33;
  for (const AddNormKind kind : {AddNormKind::rms, AddNormKind::layer}) {
    const OwnedTensor seed = normals({1, kWidth}, DType::f64, 3);
    const auto gradient = [&](double factor) {
      TestLeaf x({1, kWidth}, DType::f64, 1);
      TestLeaf b({1, kWidth}, DType::f64, 2);
      scale(x.value, factor);
      scale(b.value, factor);
      run_op(
          [&](Tape& tape) {
            return add_norm(tape.watch(x), tape.watch(b), {}, {}, {.norm = kind, .eps = kNoEps})
                .normed;
          },
          seed.tensor);
      EXPECT_TRUE(same_bits(x.grad, b.grad));
      return copy_of(x.grad);
    };
    const OwnedTensor at_one = gradient(1);
    for (const double factor : {0.2, 5.0, 100.0}) {
      OwnedTensor larger = gradient(factor);
      scale(larger.tensor, factor);
      EXPECT_LE(distance(larger.tensor, at_one.tensor), 1e-10);
    }
    if (kind == AddNormKind::layer) continue;
    // |dz| = √d/|z| · |what of dy is orthogonal to z|
    OwnedTensor z = normals({1, kWidth}, DType::f64, 1);
    add(normals({1, kWidth}, DType::f64, 2).tensor, z.tensor);
    const double across =
        norm(seed.tensor) * std::sqrt(1 - std::pow(cosine(seed.tensor, z.tensor), 2));
    EXPECT_NEAR(norm(at_one.tensor), std::sqrt(kWidth) / norm(z.tensor) * across, 1e-10);
  }
}

/// P' = softmax(⟨N(W_q x), N(W_k x)⟩/√D), read off with one-hot values, and ∂P'/∂x.
struct NormedProbabilities {
  static constexpr Index kTokens = 6;
  bool normed = true;
  TestLeaf x{{1, kTokens, 9}, DType::f64, 1};
  TestLeaf wq{{kTokens, 9}, DType::f64, 2};
  TestLeaf wk{{kTokens, 9}, DType::f64, 3};
  OwnedTensor one_hot = tabulated(
      {1, kTokens, kTokens}, DType::f64, [](Index r, Index c) { return r == c ? 1.0 : 0.0; });
  OwnedTensor seed = normals({1, kTokens, kTokens}, DType::f64, 4);
  OwnedTensor operator()() {
    return run_op(
        [&](Tape& tape) {
          const auto norm_of = [&](Var v) { return normed ? rms_norm(v, {}, {.eps = kNoEps}) : v; };
          const Var in = tape.watch(x);
          return attention(norm_of(linear(in, tape.watch(wq))),
                           norm_of(linear(in, tape.watch(wk))),
                           tape.constant(one_hot.tensor),
                           {.mask = Mask::full});
        },
        seed.tensor);
  }
};

TEST(Property, P20_QkNormMakesProbabilitiesAndTheirGradientForgetTheScaleOfWqAndWk) {
  for (const bool normed : {true, false}) {
    NormedProbabilities plain{.normed = normed};
    NormedProbabilities scaled{.normed = normed};
    scale(scaled.wq.value, 4);
    scale(scaled.wk.value, 0.3);
    const double change = distance(scaled().tensor, plain().tensor);
    const double gradient_change = distance(scaled.x.grad, plain.x.grad);
    if (normed) {
      EXPECT_LE(change, 1e-10);
      EXPECT_LE(gradient_change, 1e-10);
      scale(scaled.wq.grad, 4);
      scale(scaled.wk.grad, 0.3);
      EXPECT_LE(distance(scaled.wq.grad, plain.wq.grad), 1e-10);
      EXPECT_LE(distance(scaled.wk.grad, plain.wk.grad), 1e-10);
    } else {
      EXPECT_GT(change, 1e-2);
      EXPECT_GT(gradient_change, 1e-2);
    }
  }
}

TEST(Property, P20_DntDoesNotSeeTheScaleOfWqAndWk) {
  const std::string toml = "base = \"dnt\"\nq.eps = 1e-30\nk.eps = 1e-30\n";
  TinyGpt plain(toml);
  TinyGpt scaled(toml);
  EXPECT_EQ(scaled.scale_all("attn.q.weight", 5), 2);
  EXPECT_EQ(scaled.scale_all("attn.k.weight", 0.2), 2);
  EXPECT_NEAR(scaled.backward(), plain.backward(), 1e-10);
  EXPECT_LE(distance(scaled.logits().tensor, plain.logits().tensor), 1e-10);
  for (const Index layer : {0, 1}) {
    scale(scaled.grad(say("blocks.", layer, ".attn.q.weight")), 5);
    scale(scaled.grad(say("blocks.", layer, ".attn.k.weight")), 0.2);
  }
  EXPECT_LE(gradient_distance(scaled, plain), 1e-10);
}

}  // namespace
}  // namespace norma::test
