// Laws of attention: what its outputs ignore, how large they can be, whom a token sees.
#include "norma/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>

#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/base/error.h"
#include "norma/tensor/plain.h"
#include "tests/support/attention_case.h"
#include "tests/support/expect.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::rows;
using test::TestLeaf;
using Case = test::AttentionCase;

TEST(Attention, ValuesByHand) {
  Tape tape;
  const OwnedTensor q = test::numbers({1, 2, 1}, DType::f64, {5, 2});
  const OwnedTensor k = test::numbers({1, 2, 1}, DType::f64, {0.5, 1});
  const OwnedTensor v = test::numbers({1, 2, 1}, DType::f64, {10, 20});
  const Var y =
      attention(tape.constant(q.tensor), tape.constant(k.tensor), tape.constant(v.tensor), {});
  EXPECT_DOUBLE_EQ(value_at(y.value(), 0, 0), 10);     // the first token sees itself
  const double share = 1 / (1 + std::exp(1.0 - 2.0));  // of the second key, logits 1 and 2
  EXPECT_NEAR(value_at(y.value(), 1, 0), 10 * (1 - share) + 20 * share, 1e-13);
}

// With a norm on q, its scale does not matter, head by head; dq shrinks as q grows.
TEST(Attention, TheScaleOfNormedQueriesDoesNotMatter) {
  Case plain({2, 6, 12}, {2, 6, 12}, DType::f64);
  Case scaled({2, 6, 12}, {2, 6, 12}, DType::f64);
  plain({.heads = 3}, 4);
  scale(scaled.q.value.columns(0, 4), 8);
  scale(scaled.q.value.columns(4, 8), 0.5);
  scaled({.heads = 3}, 4);
  EXPECT_TRUE(test::close(scaled.y.tensor, plain.y.tensor, 1e-11));
  EXPECT_TRUE(test::close(scaled.k.grad, plain.k.grad, 1e-11));
  EXPECT_TRUE(test::close(scaled.v.grad, plain.v.grad, 1e-11));
  scale(scaled.q.grad.columns(0, 4), 8);
  scale(scaled.q.grad.columns(4, 8), 0.5);
  EXPECT_TRUE(test::close(scaled.q.grad, plain.q.grad, 1e-11));
  plain({.heads = 3});
  scaled({.heads = 3});
  EXPECT_FALSE(test::close(scaled.y.tensor, plain.y.tensor, 1e-2)) << "without the norm it does";
}

TEST(Attention, NormedQueriesAndKeysAreTheCosineRule) {
  // rms rows of width D have length √D: ⟨q, k⟩/√D = √D·cos, nGPT's rule with s = 1.
  Case rms({1, 5, 8}, {1, 5, 8}, DType::f64);
  rms({.heads = 2}, 4);
  Case cosine({1, 5, 8}, {1, 5, 8}, DType::f64);
  for (TestLeaf* leaf : {&cosine.q, &cosine.k}) {
    for (Index r = 0; r < 5; ++r) {
      for (const Index head : {0, 4}) {
        const Tensor part = rows(leaf->value, r, 1).columns(head, 4);
        scale(part, 1 / std::sqrt(test::dot(part, part)));
      }
    }
  }
  cosine({.heads = 2, .scale = 2});  // √4
  EXPECT_TRUE(test::close(cosine.y.tensor, rms.y.tensor, 1e-12));
}

/// The largest probability of any row, read off with one-hot values.
double largest_probability(Index keys, const Tensor& q, const Tensor& k, AttentionSpec spec) {
  Tape tape;
  const OwnedTensor one_hot({1, keys, keys}, q.dtype);
  for (Index j = 0; j < keys; ++j) set_value(one_hot.tensor, j, j, 1);
  const Var y = attention(tape.constant(q), tape.constant(k), tape.constant(one_hot.tensor), spec);
  double most = 0;
  test::for_each_place(y.shape(),
                       [&](Index r, Index c) { most = std::max(most, value_at(y.value(), r, c)); });
  return most;
}

TEST(Attention, BoundedLogitsBoundTheLargestProbability) {
  constexpr Index kKeys = 7;
  const double bound_at_2 = 1 / (1 + (kKeys - 1) * std::exp(-2 * 2.0));
  for (const DType dtype : {DType::f64, DType::f32}) {
    // Cosines times 2 lie in [-2, 2]: unit rows, one key along the query, all others against it.
    OwnedTensor q({1, kKeys, kKeys}, dtype);
    OwnedTensor k({1, kKeys, kKeys}, dtype);
    for (Index r = 0; r < kKeys; ++r) {
      set_value(q.tensor, r, 0, 1);
      set_value(k.tensor, r, 0, r == 3 ? 1 : -1);
    }
    const AttentionSpec cosine{.mask = Mask::full, .scale = 2};
    EXPECT_NEAR(largest_probability(kKeys, q.tensor, k.tensor, cosine), bound_at_2, 1e-6);
    for (std::uint64_t stream = 0; stream < 20; ++stream) {
      test::fill_normal(q.tensor, 10 + stream);
      test::fill_normal(k.tensor, 50 + stream);
      for (Index r = 0; r < kKeys; ++r) {
        for (const Tensor& t : {rows(q.tensor, r, 1), rows(k.tensor, r, 1)})
          scale(t, 1 / std::sqrt(test::dot(t, t)));
      }
      EXPECT_LE(largest_probability(kKeys, q.tensor, k.tensor, cosine), bound_at_2);
    }
  }
}

TEST(Attention, ASoftcapBoundsTheLogitsHoweverLargeTheInputs) {
  constexpr Index kKeys = 7;
  const double bound = 1 / (1 + (kKeys - 1) * std::exp(-2 * 1.5));
  for (const DType dtype : {DType::f64, DType::f32}) {
    const OwnedTensor q = test::normals({1, kKeys, kKeys}, dtype, 5, 1e4);
    const OwnedTensor k = test::normals({1, kKeys, kKeys}, dtype, 6, 1e4);
    for (Index r = 0; r < kKeys; ++r) {
      set_value(q.tensor, r, 0, 1e6);
      set_value(k.tensor, r, 0, r == 2 ? 1e6 : -1e6);
    }
    const double most =
        largest_probability(kKeys, q.tensor, k.tensor, {.mask = Mask::full, .softcap = 1.5});
    EXPECT_NEAR(most, bound, 1e-6);
    EXPECT_NEAR(largest_probability(kKeys, q.tensor, k.tensor, {.mask = Mask::full}), 1, 1e-12);
  }
}

TEST(Attention, ATokenChangesNothingBeforeIt) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Index changed : {5, 70, 129}) {  // inside, between and at the end of query blocks
      Case before({1, 130, 12}, {1, 130, 12}, dtype);
      Case after({1, 130, 12}, {1, 130, 12}, dtype);
      for (TestLeaf* leaf : {&after.q, &after.k, &after.v}) fill(rows(leaf->value, changed, 1), 37);
      before({.heads = 2});
      after({.heads = 2});
      EXPECT_TRUE(
          test::same_bits(rows(after.y.tensor, 0, changed), rows(before.y.tensor, 0, changed)))
          << name_of(dtype) << " token " << changed;
      EXPECT_FALSE(
          test::same_bits(rows(after.y.tensor, changed, 1), rows(before.y.tensor, changed, 1)));
    }
  }
}

TEST(Attention, AFullMaskIsNotCausal) {
  Case before({1, 6, 4}, {1, 6, 4}, DType::f64);
  Case after({1, 6, 4}, {1, 6, 4}, DType::f64);
  fill(rows(after.v.value, 5, 1), 37);
  before({.mask = Mask::full});
  after({.mask = Mask::full});
  EXPECT_FALSE(test::close(rows(after.y.tensor, 0, 1), rows(before.y.tensor, 0, 1), 1e-2));
}

TEST(Attention, PaddingChangesNothingAndGivesZero) {
  for (const Mask mask : {Mask::causal, Mask::full}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      constexpr Index T = 70;
      Case clean({3, T, 8}, {3, T, 8}, dtype);
      Case dirty({3, T, 8}, {3, T, 8}, dtype);
      const Index valid[] = {T, 66, 0};  // whole, cut inside the second block of queries, empty
      for (Case* one : {&clean, &dirty}) one->lengths = test::numbers({3}, DType::i32, {T, 66, 0});
      for (TestLeaf* leaf : {&dirty.q, &dirty.k, &dirty.v}) {
        fill(rows(leaf->value, T + 66, T - 66), 1e3);
        fill(rows(leaf->value, 2 * T, T), -1e3);
      }
      clean({.heads = 2, .mask = mask});
      dirty({.heads = 2, .mask = mask});
      EXPECT_TRUE(test::same_bits(dirty.y.tensor, clean.y.tensor));
      EXPECT_TRUE(test::same_bits(dirty.q.grad, clean.q.grad));
      EXPECT_TRUE(test::same_bits(dirty.k.grad, clean.k.grad));
      EXPECT_TRUE(test::same_bits(dirty.v.grad, clean.v.grad));
      for (Index b = 0; b < 3; ++b) {
        for (Index t = valid[b]; t < T; ++t) {
          for (const Tensor& tensor : {dirty.y.tensor, dirty.q.grad, dirty.k.grad, dirty.v.grad}) {
            const Tensor row = rows(tensor, b * T + t, 1);
            EXPECT_EQ(test::dot(row, row), 0) << "sequence " << b << " token " << t;
          }
        }
      }
    }
  }
}

TEST(Attention, APaddedSequenceEqualsTheShortOne) {
  Case padded({1, 9, 8}, {1, 9, 8}, DType::f64);
  padded.lengths = test::numbers({1}, DType::i32, {6});
  Case alone({1, 6, 8}, {1, 6, 8}, DType::f64);
  for (const Mask mask : {Mask::causal, Mask::full}) {
    padded({.heads = 2, .mask = mask});
    alone({.heads = 2, .mask = mask});
    const auto first_rows = [](const Tensor& t) { return rows(t, 0, 6); };
    EXPECT_TRUE(test::close(first_rows(padded.y.tensor), first_rows(alone.y.tensor), 1e-13));
    EXPECT_TRUE(test::close(first_rows(padded.q.grad), first_rows(alone.q.grad), 1e-12));
    EXPECT_TRUE(test::close(first_rows(padded.k.grad), first_rows(alone.k.grad), 1e-12));
  }
}

TEST(Attention, GroupedHeadsAreRepeatedKeysAndValues) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Case grouped({2, 7, 12}, {2, 7, 6}, dtype);  // 4 query heads of width 3 share 2 key heads
    Case repeated({2, 7, 12}, {2, 7, 12}, dtype);
    for (const Index head : {0, 1, 2, 3}) {
      copy(grouped.k.value.columns(head / 2 * 3, 3), repeated.k.value.columns(head * 3, 3));
      copy(grouped.v.value.columns(head / 2 * 3, 3), repeated.v.value.columns(head * 3, 3));
    }
    grouped({.heads = 4, .kv_heads = 2});
    repeated({.heads = 4});
    const double limit = dtype == DType::f32 ? 2e-6 : 1e-13;
    EXPECT_TRUE(test::close(grouped.y.tensor, repeated.y.tensor, limit));
    EXPECT_TRUE(test::close(grouped.q.grad, repeated.q.grad, limit));
    for (TestLeaf* leaf : {&repeated.k, &repeated.v}) {  // each key head gathers from two queries
      for (const Index head : {0, 2})
        add(leaf->grad.columns(head * 3 + 3, 3), leaf->grad.columns(head * 3, 3));
      const Tensor& got = leaf == &repeated.k ? grouped.k.grad : grouped.v.grad;
      EXPECT_TRUE(test::close(got.columns(0, 3), leaf->grad.columns(0, 3), limit));
      EXPECT_TRUE(test::close(got.columns(3, 3), leaf->grad.columns(6, 3), limit));
    }
  }
}

TEST(Attention, LastQueriesOverAllKeysAreTheTailOfTheWhole) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Index tail : {1, 3, 66}) {
      Case whole({1, 80, 8}, {1, 80, 8}, dtype);
      Case last({1, tail, 8}, {1, 80, 8}, dtype);
      copy(rows(whole.q.value, 80 - tail, tail), rows(last.q.value, 0, tail));
      whole({.heads = 2});
      last({.heads = 2});
      EXPECT_TRUE(test::close(rows(last.y.tensor, 0, tail),
                              rows(whole.y.tensor, 80 - tail, tail),
                              dtype == DType::f32 ? 2e-6 : 1e-13));
    }
  }
}

TEST(Attention, NeverHoldsAllPairsOfTheBatch) {
  constexpr Index B = 8, T = 512, H = 4;
  Case long_context({B, T, H * 8}, {B, T, H * 8}, DType::f32);
  long_context({.heads = H});
  EXPECT_LT(long_context.tape.arena().peak(), std::size_t{B * H * T * T} * sizeof(float) / 4);
}

TEST(Attention, ANegativeSoftcapIsRefused) {
  Case c({2, 3, 12}, {2, 3, 12}, DType::f32);
  EXPECT_TRUE(
      test::throws<RequestError>([&] { c({.softcap = -1}); }, {"attention", "softcap", "-1"}));
}

TEST(Attention, BadInputsAreRefusedWithASentence) {
  Case c({2, 3, 12}, {2, 3, 12}, DType::f32);
  const auto refuses = [&](AttentionSpec spec, std::initializer_list<std::string_view> texts) {
    return test::throws<RequestError>([&] { c(spec); }, texts);
  };
  EXPECT_TRUE(refuses({.heads = 5}, {"attention", "heads must divide", "12", "got 5"}));
  EXPECT_TRUE(refuses({.heads = 0}, {"attention", "heads", "got 0"}));
  EXPECT_TRUE(
      refuses({.heads = 4, .kv_heads = 3}, {"attention", "kv_heads", "heads = 4", "got 3"}));
  EXPECT_TRUE(refuses({.heads = 4, .kv_heads = 2},
                      {"attention", "k must be", "(2, at least 3, 6)", "(2, 3, 12)"}));
  for (const double length : {-1, 4}) {
    c.lengths = test::numbers({2}, DType::i32, {3, length});
    EXPECT_TRUE(refuses(
        {}, {"attention", "lengths", "[0, 3]", length < 0 ? "got -1" : "got 4", "sequence 1"}));
  }
  c.lengths = test::numbers({3}, DType::i32, {1, 1, 1});
  EXPECT_TRUE(refuses({}, {"attention", "lengths", "(2)", "(3)"}));
  c.lengths = test::numbers({2}, DType::f32, {1, 1});
  EXPECT_TRUE(refuses({}, {"attention", "lengths must be i32", "f32"}));

  Tape tape;
  const auto given = [&](const OwnedTensor& t) { return tape.constant(t.tensor); };
  const OwnedTensor q({2, 3, 12}, DType::f32), flat({6, 12}, DType::f32),
      few({2, 2, 12}, DType::f32), f64({2, 3, 12}, DType::f64), gain({4}, DType::f32);
  const auto call = [&](const OwnedTensor& a,
                        const OwnedTensor& b,
                        const OwnedTensor& v,
                        const AttentionExtras& e = {}) {
    return [&, e] { attention(given(a), given(b), given(v), {.heads = 3}, e); };
  };
  EXPECT_TRUE(
      test::throws<ShapeError>(call(flat, q, q), {"attention", "q", "(B, T, heads·D)", "(6, 12)"}));
  EXPECT_TRUE(
      test::throws<ShapeError>(call(q, few, few), {"attention", "k", "at least 3", "(2, 2, 12)"}));
  EXPECT_TRUE(
      test::throws<ShapeError>(call(q, q, few), {"attention", "v", "(2, 3, 12)", "(2, 2, 12)"}));
  EXPECT_TRUE(test::throws<RequestError>(call(q, f64, q), {"attention", "k must be f32", "f64"}));
  AttentionExtras temperature;
  temperature.temperature = given(gain);
  EXPECT_TRUE(test::throws<ShapeError>(call(q, q, q, temperature), {"temperature", "(3)", "(4)"}));
  AttentionExtras log_scale;
  log_scale.log_scale = given(gain);
  EXPECT_TRUE(test::throws<RequestError>(call(q, q, q, log_scale), {"attention", "log_scale"}));
}

}  // namespace
}  // namespace norma
