// Loss and accuracy where they are known without a model's help.
#include "norma/train/evaluate.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "norma/tensor/plain.h"
#include "tests/support/small_recipe.h"

namespace norma {
namespace {

constexpr Index kVocab = 8;

/// Tokens that count 0 1 … 7 0 1 …, but every fifth one says 3.
std::vector<std::uint16_t> counting(Index count) {
  std::vector<std::uint16_t> ids(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::uint16_t>(i % 5 == 0 ? 3 : i % kVocab);
  }
  return ids;
}

/// A model that reads nothing but the last token and says the one that follows it in counting.
class CountingModel {
 public:
  explicit CountingModel(double certainty, DType dtype)
      : recipe_(test::small_recipe(
            {"scheme.base=pre-rms", "model.vocab=8", "model.positions=none", "model.tied=false"})),
        model_(recipe_.model, recipe_.scheme, params_),
        batch_(3, recipe_.model.context, {}) {
    params_.allocate(dtype);
    model_.allocate(dtype);
    fill(params_.values(), 0);
    fill(params_.value(params_.find("final.gain")), 1);
    const Tensor table = params_.value(params_.find("embed.tokens"));
    const Tensor head = params_.value(params_.find("head.weight"));
    for (Index v = 0; v < kVocab; ++v) {
      set_value(table, v, v, 1);
      set_value(head, (v + 1) % kVocab, v, certainty);
    }
  }
  Evaluation operator()(const std::vector<std::uint16_t>& ids, Index most_tokens = 0) {
    const TokenView tokens{
        reinterpret_cast<const std::byte*>(ids.data()), static_cast<Index>(ids.size()), 2};
    return *evaluate(model_, tape_, batch_, tokens, {.most_tokens = most_tokens});
  }
  Index width() const { return recipe_.model.width; }

 private:
  Recipe recipe_;
  ParamStore params_;
  Gpt model_;
  Tape tape_;
  BatchMemory batch_;
};

TEST(Evaluate, AccuracyIsTheShareOfTokensThatWereLikeliest) {
  const std::vector<std::uint16_t> ids = counting(1001);
  Index follows = 0;
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) follows += ids[i + 1] == (ids[i] + 1) % kVocab;
  for (const DType dtype : {DType::f32, DType::f64}) {
    CountingModel model(2, dtype);
    const Evaluation result = model(ids);
    EXPECT_EQ(result.tokens, 1000);
    EXPECT_EQ(result.right, follows);
    EXPECT_DOUBLE_EQ(result.accuracy(), static_cast<double>(follows) / 1000);
    // A token is a unit vector, whose norm has root mean square 1: its one element is √width.
    const double sure = 2 * std::sqrt(static_cast<double>(model.width()));
    const double lse = std::log(std::exp(sure) + static_cast<double>(kVocab - 1));
    const double want = lse - sure * result.accuracy();
    EXPECT_NEAR(result.loss, want, 1e-4 * want);
    EXPECT_NEAR(result.perplexity(), std::exp(want), 1e-3 * std::exp(want));
    EXPECT_NEAR(result.bits_per_byte(4), want / std::log(2.0) / 4, 1e-4 * want);
  }
}

TEST(Evaluate, OfEqualLogitsTheFirstIsTheGuess) {
  CountingModel model(0, DType::f32);
  std::vector<std::uint16_t> ids(101, 5);
  for (std::size_t i = 1; i <= 25; ++i) ids[4 * i] = 0;
  const Evaluation result = model(ids);
  EXPECT_EQ(result.right, 25);
  EXPECT_NEAR(result.loss, std::log(static_cast<double>(kVocab)), 1e-6);
}

TEST(Evaluate, ALimitLooksAtEvenlySpreadWindows) {
  CountingModel model(2, DType::f32);
  const std::vector<std::uint16_t> ids = counting(2001);
  const Evaluation some = model(ids, 480);
  EXPECT_EQ(some.tokens, 480);
  EXPECT_NEAR(some.accuracy(), model(ids).accuracy(), 0.05);
}

}  // namespace
}  // namespace norma
