// Properties 21, 25, 27 and 28: whole nGPT models.
#include <cmath>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "norma/tensor/plain.h"
#include "tests/properties/tiny_gpt.h"
#include "tests/support/expect.h"

namespace norma::test {
namespace {

TEST(Property, P21_AfterEveryBlockTheStreamHasLengthOne) {
  for (const char* base : {"ngpt",
                           "ngpt-slerp",
                           "ngpt-riemann",
                           "ngpt-fixed-alpha",
                           "ngpt-no-qk-norm",
                           "ngpt-inner",
                           "ngpt-parametrized",
                           "ngpt-scalar-scales"}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      TinyGpt at(say("base = \"", base, "\""), {.dtype = dtype, .model = "layers = 3"});
      const std::vector<OwnedTensor> streams = at.streams();
      ASSERT_EQ(streams.size(), 3U);
      for (const OwnedTensor& stream : streams) {
        for (Index r = 0; r < stream.tensor.shape.rows(); ++r) {
          double squares = 0;
          for (Index c = 0; c < stream.tensor.shape.cols(); ++c) {
            squares += std::pow(value_at(stream.tensor, r, c), 2);
          }
          ASSERT_NEAR(std::sqrt(squares), 1, dtype == DType::f32 ? 1e-6 : 1e-11) << base;
        }
      }
    }
  }
  // anGPT keeps the length only about.
  TinyGpt loose("base = \"angpt\"");
  EXPECT_GT(std::abs(norm(loose.streams()[1].tensor) / std::sqrt(39.0) - 1), 1e-4);
}

double euler(const TinyGpt& at, const std::string& name) {
  return std::abs(cosine(at.value(name), at.grad(name)));
}

TEST(Property, P25_WhatNgptIsScaleInvariantInHasNoGradientAlongItself) {
  for (const char* base : {"ngpt", "ngpt-slerp", "ngpt-riemann"}) {
    for (const DType dtype : {DType::f64, DType::f32}) {
      const double limit = dtype == DType::f64 ? 1e-10 : 1e-4;
      TinyGpt at(say("base = \"", base, "\""), {.dtype = dtype});
      at.backward();
      const Index head = at.spec().head();
      for (const Index layer : {0, 1}) {
        const std::string block = say("blocks.", layer, ".");
        for (const char* name :
             {"attn.out.weight", "ffn.down.weight", "attn.v.weight", "ffn.up.weight", "ffn.s_u"}) {
          EXPECT_LE(euler(at, block + name), limit) << base << " " << block << name;
        }
        for (const std::string name : {"attn.q.weight", "attn.k.weight"}) {
          const Index rows = at.value(block + name).shape.rows();
          for (Index first = 0; first < rows; first += head) {
            EXPECT_LE(std::abs(cosine(at.value_rows(block + name, first, head),
                                      at.grad_rows(block + name, first, head))),
                      limit)
                << base << " " << block << name << " row " << first;
          }
        }
        for (const char* name : {"ffn.gate.weight", "ffn.s_v"}) {
          EXPECT_GT(euler(at, block + name), 1e-3) << base << " " << block << name;
        }
      }
      EXPECT_GT(euler(at, "head.weight"), 1e-3) << base;
      EXPECT_GT(euler(at, "logits.gain"), 1e-3) << base;
    }
  }
}

/// The mean over positions of lse − mean(z): the loss of targets drawn evenly, without their noise.
double even_loss(TinyGpt& at) {
  const OwnedTensor z = at.logits();
  const Index rows = z.tensor.shape.rows();
  const Index cols = z.tensor.shape.cols();
  double total = 0;
  for (Index r = 0; r < rows; ++r) {
    double sum = 0;
    double mean = 0;
    for (Index c = 0; c < cols; ++c) {
      sum += std::exp(value_at(z.tensor, r, c));
      mean += value_at(z.tensor, r, c) / static_cast<double>(cols);
    }
    total += std::log(sum) - mean;
  }
  return total / static_cast<double>(rows);
}

TEST(Property, P27_TheFirstLossIsTheLogarithmOfTheVocabulary) {
  constexpr double kVocab = 997;
  constexpr double kWidth = 64;
  for (const std::string& name : text_schemes()) {
    SCOPED_TRACE(name);
    TinyGpt at("base = \"" + name + "\"",
               {.dtype = DType::f32, .model = "vocab = 997\nwidth = 64", .at_start = true});
    const double excess = at.loss() - std::log(kVocab);
    const double even = even_loss(at) - std::log(kVocab);
    switch (at.model().scheme().init) {
      case InitRule::ngpt:
        EXPECT_LE(std::abs(excess), 0.02);
        EXPECT_NEAR(even, 1 / (2 * kWidth), 0.2 / (2 * kWidth));
        break;
      case InitRule::deepnorm:
      case InitRule::sub_ln:
        // Their tables have rows of length 1 and are the head, behind a norm: logits of variance 1
        // cost ½, and the token just read a little more. The 0.3 of other baselines is not theirs.
        EXPECT_GT(even, 0.45);
        EXPECT_LT(even, 0.75);
        break;
      case InitRule::megatron:
        EXPECT_LE(std::abs(excess), 0.3);
        EXPECT_NEAR(even, 0.2, 0.05);  // variance 1/2.5
        break;
      default:
        EXPECT_LE(std::abs(excess), 0.3);
        EXPECT_GT(even, 0);
        EXPECT_LE(even, 0.06);
    }
  }
}

/// A random orthogonal matrix, by Gram and Schmidt.
OwnedTensor orthogonal(Index size) {
  OwnedTensor q = normals({size, size}, DType::f64, 11);
  const auto row = [&](Index r) {
    return Tensor(q.tensor.as<double>() + r * size, {1, size}, DType::f64);
  };
  for (Index r = 0; r < size; ++r) {
    for (int twice = 0; twice < 2; ++twice) {
      for (Index before = 0; before < r; ++before) {
        add_scaled(row(before), -dot(row(before), row(r)), row(r));
      }
    }
    scale(row(r), 1 / norm(row(r)));
  }
  return q;
}

/// Turns all vectors of length d: rows of what reads the stream, columns of what writes to it.
void rotate(TinyGpt& at, const Tensor& q) {
  const Index d = at.spec().width;
  for (const Param& param : at.params().params()) {
    if (param.shape.rank() != 2) continue;
    const bool columns =
        param.name.ends_with("attn.out.weight") || param.name.ends_with("ffn.down.weight");
    const Tensor w = at.params().value(param);
    const OwnedTensor before = copy_of(w);
    for_each_place(w.shape, [&](Index r, Index c) {
      double sum = 0;
      for (Index i = 0; i < d; ++i) {
        sum += columns ? value_at(q, r, i) * value_at(before.tensor, i, c)
                       : value_at(q, c, i) * value_at(before.tensor, r, i);
      }
      set_value(w, r, c, sum);
    });
  }
}

TEST(Property, P28_ACommonRotationIsSeenOnlyByAVectorOfSteps) {
  const OwnedTensor q = orthogonal(48);
  for (const char* rule : {"lerp", "slerp", "riem"}) {
    for (const char* alpha : {"scalar", "vector"}) {
      SCOPED_TRACE(say(rule, " ", alpha));
      const std::string toml = say("base = \"ngpt\"\nresidual.rule = \"",
                                   rule,
                                   "\"\nresidual.alpha = \"",
                                   alpha,
                                   "\"\nresidual.alpha_init = 0.3\n");
      TinyGpt plain(toml);
      TinyGpt turned(toml);
      rotate(turned, q.tensor);
      const double change = distance(turned.logits().tensor, plain.logits().tensor);
      if (std::string(alpha) == "scalar") {
        EXPECT_LE(change, 1e-10);
        EXPECT_NEAR(turned.loss(), plain.loss(), 1e-10);
      } else {
        EXPECT_GT(change, 1e-3);
        EXPECT_GT(std::abs(turned.loss() - plain.loss()), 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace norma::test
