// Decoding with a cache gives the logits of the whole pass, under every scheme, however the tokens
// are cut into passes.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "norma/models/kv_cache.h"
#include "tests/properties/tiny_gpt.h"
#include "tests/support/expect.h"
#include "tests/support/heap_count.h"

namespace norma::test {
namespace {

constexpr Index kBatch = TinyGpt::kBatch;
constexpr Index kTokens = TinyGpt::kTokens;

/// Tokens [first, first + count) of every sequence.
OwnedTensor slice(const Tensor& ids, Index first, Index count) {
  OwnedTensor part({kBatch, count}, DType::i32);
  for_each_place(part.tensor.shape, [&](Index b, Index t) {
    set_value(part.tensor, b, t, value_at(ids, b, first + t));
  });
  return part;
}

/// Statistics as training leaves them: different for every channel and position.
void randomize_running(TinyGpt& at) {
  std::uint64_t stream = 900;
  for (NormLayer::Running* running : at.model().running()) {
    fill_normal(running->mean.tensor, stream++, 0.3);
    fill_normal(running->var.tensor, stream++, 0.2);
    for_each_place(running->var.tensor.shape, [&](Index r, Index c) {
      set_value(running->var.tensor, r, c, 1 + std::abs(value_at(running->var.tensor, r, c)));
    });
  }
}

/// The whole sequence in one pass, (B, T, V).
OwnedTensor whole_logits(TinyGpt& at) {
  Tape tape;
  const Var z =
      tape.evaluate([&] { return at.model().logits(tape, at.ids.tensor, {.training = false}); });
  return copy_of(z.value());
}

/// A prompt of `prompt` tokens, then passes of `step`: the largest |cached − whole| of the logits
/// after each pass, relative to the root mean square of the whole ones.
double worst_gap(TinyGpt& at, const Tensor& whole, Index prompt, Index step) {
  KvCache cache(at.spec(), kBatch, whole.dtype);
  Tape tape;
  double worst = 0;
  double square = 0;
  for_each_place(whole.shape, [&](Index r, Index c) {
    square += value_at(whole, r, c) * value_at(whole, r, c) / static_cast<double>(whole.count());
  });
  for (Index first = 0; first < kTokens;) {
    const Index count = std::min(first == 0 ? prompt : step, kTokens - first);
    const OwnedTensor part = slice(at.ids.tensor, first, count);
    tape.reset();
    const Var z = tape.evaluate([&] {
      return at.model().next_logits(tape, part.tensor, {.training = false, .cache = &cache});
    });
    first += count;
    EXPECT_EQ(cache.filled(), first);
    for (Index b = 0; b < kBatch; ++b) {
      for (Index v = 0; v < at.spec().vocab; ++v) {
        const double want = value_at(whole, b * kTokens + first - 1, v);
        worst = std::max(worst, std::abs(value_at(z.value(), b, v) - want));
      }
    }
  }
  return worst / std::sqrt(square);
}

void expect_cache_agrees(const std::string& scheme, const std::string& model) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    TinyGpt at(scheme, {.dtype = dtype, .model = model});
    randomize_running(at);
    const OwnedTensor whole = whole_logits(at);
    const double limit = dtype == DType::f32 ? 1e-5 : 1e-12;
    for (const Index prompt : {Index{1}, Index{5}, kTokens}) {
      for (const Index step : {Index{1}, Index{3}}) {
        EXPECT_LE(worst_gap(at, whole.tensor, prompt, step), limit)
            << name_of(dtype) << ", prompt " << prompt << ", step " << step << ", " << model;
      }
    }
  }
}

class Cache : public testing::TestWithParam<std::string> {};

/// The tiny model has four heads and two of keys and values.
TEST_P(Cache, DecodingGivesTheLogitsOfTheWholePass) {
  const std::string scheme = "base = \"" + GetParam() + "\"";
  expect_cache_agrees(scheme, "positions = \"rope\"");
  // Gains of pairs need the rotation they commute with.
  if (!scheme_of(scheme).attention.pair_tied)
    expect_cache_agrees(scheme, "positions = \"learned\"");
}

INSTANTIATE_TEST_SUITE_P(Schemes, Cache, testing::ValuesIn(text_schemes()), [](const auto& param) {
  std::string name = param.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(CachedDecoding, HoldsForBatchStatisticsOfEveryKind) {
  for (const std::string statistics : {"position", "prefix", "running"}) {
    SCOPED_TRACE(statistics);
    const std::string slot = "{ norm = \"bn\", statistics = \"" + statistics + "\" }";
    expect_cache_agrees(
        "base = \"pre-ln\"\nattn_pre = " + slot + "\nffn_pre = " + slot + "\nfinal = " + slot,
        "positions = \"rope\"");
  }
}

TEST(CachedDecoding, HoldsForSingleKeyHeadsAndManyAndForEveryRotation) {
  for (const std::string heads : {"1", "2", "4"}) {
    expect_cache_agrees("base = \"ngpt\"", "positions = \"rope\"\nkv_heads = " + heads);
    expect_cache_agrees("base = \"dnt\"",
                        "positions = \"rope\"\nrope = \"half_split\"\nkv_heads = " + heads);
  }
}

/// The test above sees a cache that is off by one: a token read twice.
TEST(CachedDecoding, AShiftedCacheIsSeen) {
  for (const std::string positions : {"rope", "learned"}) {
    TinyGpt at("base = \"pre-rms\"", {.model = "positions = \"" + positions + "\""});
    const OwnedTensor whole = whole_logits(at);
    KvCache cache(at.spec(), kBatch, DType::f64);
    Tape tape;
    Index last = 0;
    Var z;
    for (const Index first : {Index{0}, Index{4}}) {
      const OwnedTensor part = slice(at.ids.tensor, first, 5);
      tape.reset();
      z = tape.evaluate([&] {
        return at.model().next_logits(tape, part.tensor, {.training = false, .cache = &cache});
      });
      last = first + 4;
    }
    double worst = 0;
    for (Index v = 0; v < at.spec().vocab; ++v) {
      worst =
          std::max(worst, std::abs(value_at(z.value(), 0, v) - value_at(whole.tensor, last, v)));
    }
    EXPECT_GT(worst, 1e-3) << positions;
  }
}

TEST(CachedDecoding, ClearingStartsANewSequence) {
  TinyGpt at("base = \"dnt\"");
  const OwnedTensor whole = whole_logits(at);
  KvCache cache(at.spec(), kBatch, DType::f64);
  Tape tape;
  const auto read = [&](Index count) {
    const OwnedTensor part = slice(at.ids.tensor, 0, count);
    tape.reset();
    const Var z = tape.evaluate([&] {
      return at.model().next_logits(tape, part.tensor, {.training = false, .cache = &cache});
    });
    return value_at(z.value(), 1, 7);
  };
  const double first = read(6);
  cache.clear();
  EXPECT_EQ(cache.room(), kTokens);
  EXPECT_EQ(read(6), first);
}

TEST(CachedDecoding, WhatDoesNotFitIsRefused) {
  TinyGpt at("base = \"pre-ln\"");
  Tape tape;
  KvCache cache(at.spec(), kBatch, DType::f64);
  const auto pass = [&](KvCache& with) {
    tape.reset();
    tape.evaluate([&] {
      return at.model().next_logits(tape, at.ids.tensor, {.training = false, .cache = &with});
    });
  };
  EXPECT_TRUE(throws<RequestError>(
      [&] {
        tape.reset();
        at.model().next_logits(tape, at.ids.tensor, {.training = false, .cache = &cache});
      },
      {"no gradient"}));
  pass(cache);
  EXPECT_TRUE(
      throws<RequestError>([&] { pass(cache); }, {"context is 13", "got a sequence of 26"}));
  KvCache few(at.spec(), 2, DType::f64);
  EXPECT_TRUE(throws<RequestError>([&] { pass(few); }, {"2 sequences", "over 3"}));
  ModelSpec deeper = at.spec();
  deeper.layers = 3;
  KvCache other(deeper, kBatch, DType::f64);
  EXPECT_TRUE(throws<RequestError>([&] { pass(other); }, {"another size"}));
}

TEST(CachedDecoding, NothingIsAllocatedWhileItFills) {
  TinyGpt at("base = \"ngpt\"", {.dtype = DType::f32});
  KvCache cache(at.spec(), kBatch, DType::f32);
  Tape tape;
  const OwnedTensor one = slice(at.ids.tensor, 0, 1);
  const auto read = [&] {
    tape.reset();
    tape.evaluate([&] {
      return at.model().next_logits(tape, one.tensor, {.training = false, .cache = &cache});
    });
  };
  for (int i = 0; i < 3; ++i) read();
  const std::size_t held = tape.arena().capacity();
  const HeapCount count;
  for (int i = 0; i < 9; ++i) read();
  EXPECT_EQ(count.calls(), 0);
  EXPECT_EQ(tape.arena().capacity(), held);
}

}  // namespace
}  // namespace norma::test
