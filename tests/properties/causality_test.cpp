// Properties 14 and 15: what a position may not see.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "norma/ops/attention.h"
#include "norma/tensor/plain.h"
#include "tests/properties/tiny_gpt.h"
#include "tests/support/attention_case.h"
#include "tests/support/expect.h"
#include "tests/support/run_op.h"

namespace norma::test {
namespace {

constexpr Index kBatch = TinyGpt::kBatch;
constexpr Index kTokens = TinyGpt::kTokens;

/// What happens to the logits when token t of the second sequence becomes another one.
struct Change {
  bool past = false;     // some bit at a position before t changed, in any sequence
  bool present = false;  // some bit at t changed, in that sequence
};

Change change_by(TinyGpt& at, Index t) {
  const OwnedTensor before = at.logits();
  std::int32_t& id = at.ids.tensor.elements<std::int32_t>()[static_cast<std::size_t>(kTokens + t)];
  const std::int32_t kept = id;
  id = (kept + 7) % 61;
  const OwnedTensor after = at.logits();
  id = kept;
  Change change;
  for_each_place(before.tensor.shape, [&](Index r, Index c) {
    if (value_at(before.tensor, r, c) == value_at(after.tensor, r, c)) return;
    if (r % kTokens < t) change.past = true;
    if (r == kTokens + t) change.present = true;
  });
  return change;
}

class Causality : public testing::TestWithParam<std::string> {};

TEST_P(Causality, P14_NoPositionSeesItsFutureInTraining) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    TinyGpt at("base = \"" + GetParam() + "\"", {.dtype = dtype});
    for (const Index t : {Index{1}, Index{6}, kTokens - 1}) {
      const Change change = change_by(at, t);
      EXPECT_FALSE(change.past) << "token " << t;
      EXPECT_TRUE(change.present) << "token " << t;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes,
                         Causality,
                         testing::ValuesIn(text_schemes()),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

std::string with_batch_norm(const std::string& statistics) {
  const std::string slot = "{ norm = \"bn\", statistics = \"" + statistics + "\", force = true }";
  return "base = \"pre-ln\"\nattn_pre = " + slot + "\nffn_pre = " + slot + "\nfinal = " + slot;
}

TEST(Property, P14_BatchNormOverAllPositionsLeaksAndTheOthersDoNot) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const std::string statistics : {"all", "position", "prefix", "running"}) {
      SCOPED_TRACE(statistics);
      TinyGpt at(with_batch_norm(statistics), {.dtype = dtype});
      const Change change = change_by(at, 6);
      EXPECT_TRUE(change.present);
      EXPECT_EQ(change.past, statistics == "all");
    }
  }
}

TEST(Property, P14_BatchNormOverAllPositionsIsRefusedUnlessForced) {
  EXPECT_TRUE(throws<RequestError>(
      [] { TinyGpt("base = \"pre-ln\"\nattn_pre = { norm = \"bn\", statistics = \"all\" }"); },
      {"attn_pre", "future", "force"}));
  TinyGpt forced(with_batch_norm("all"));
  EXPECT_EQ(forced.model().warnings().size(), 3U);
}

TEST(Property, P15_PaddingChangesNothingAndPaddedQueriesGiveZero) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Mask mask : {Mask::full, Mask::causal}) {
      const AttentionSpec spec{.heads = 4, .kv_heads = 2, .mask = mask};
      AttentionCase plain({3, 5, 16}, {3, 5, 8}, dtype);
      AttentionCase other({3, 5, 16}, {3, 5, 8}, dtype);
      for (AttentionCase* one : {&plain, &other}) {
        one->lengths = OwnedTensor({3}, DType::i32);
        const std::int32_t lengths[] = {5, 2, 0};  // whole, cut, nothing but padding
        std::copy(lengths, lengths + 3, one->lengths->tensor.elements<std::int32_t>().data());
      }
      for (TestLeaf* leaf : {&other.q, &other.k, &other.v}) {
        fill(rows(leaf->value, 7, 3), 1e4);
        fill(rows(leaf->value, 10, 5), 1e4);
      }
      plain(spec);
      other(spec);
      EXPECT_TRUE(same_bits(other.y.tensor, plain.y.tensor));
      EXPECT_EQ(norm(rows(plain.y.tensor, 7, 8)), 0);
      EXPECT_GT(norm(rows(plain.y.tensor, 0, 7)), 0.1);
      for (const auto& [one, two] :
           {std::pair{&plain.q, &other.q}, {&plain.k, &other.k}, {&plain.v, &other.v}}) {
        EXPECT_TRUE(same_bits(two->grad, one->grad));
        EXPECT_EQ(norm(rows(one->grad, 7, 8)), 0);
        EXPECT_TRUE(all_finite(two->grad));
      }
    }
  }
}

/// Sequences of 13, 8 and 1 tokens; what follows is ignored by the loss.
void pad(TinyGpt& at) {
  at.lengths = OwnedTensor({kBatch}, DType::i32);
  const Index lengths[] = {kTokens, 8, 1};
  for (Index b = 0; b < kBatch; ++b) {
    set_value(at.lengths.tensor, 0, b, static_cast<double>(lengths[b]));
    for (Index t = lengths[b]; t < kTokens; ++t) {
      at.targets.tensor.elements<std::int32_t>()[static_cast<std::size_t>(b * kTokens + t)] = -1;
    }
  }
}

/// Loss and gradients of a padded batch for two choices of the padding's ids.
double padding_effect(const std::string& toml) {
  TinyGpt plain(toml);
  TinyGpt other(toml);
  pad(plain);
  pad(other);
  for (std::size_t i = 0; i < static_cast<std::size_t>(kBatch * kTokens); ++i) {
    if (other.targets.tensor.elements<std::int32_t>()[i] < 0) {
      other.ids.tensor.elements<std::int32_t>()[i] = 3;
    }
  }
  const double difference = std::abs(other.backward() - plain.backward());
  return std::max(difference, gradient_distance(other, plain));
}

TEST(Property, P15_PaddingOfAModelReachesNeitherLossNorGradients) {
  for (const char* base : {"pre-ln", "dnt", "ngpt", "hybridnorm", "swin-v2"}) {
    EXPECT_EQ(padding_effect(std::string("base = \"") + base + "\""), 0) << base;
  }
}

/// The model does not tell its norms where sequences end, so padding enters batch statistics.
TEST(Property, P15_PaddingOfAModelDoesNotReachBatchStatistics) {
  for (const char* statistics : {"position", "prefix"}) {
    EXPECT_EQ(padding_effect(with_batch_norm(statistics)), 0) << statistics;
  }
}

}  // namespace
}  // namespace norma::test
