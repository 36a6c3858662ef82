// Drawing: exact sets, exact distributions, one random number a place.
#include "norma/generate/sampler.h"

#include <cmath>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "tests/support/expect.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::numbers;
using test::throws;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Index kDraws = 20000;

/// How often each id is drawn.
std::vector<Index> counts(const OwnedTensor& logits, const SamplingSpec& spec) {
  Sampler sampler(spec);
  const Index choices = logits.tensor.shape.cols();
  std::vector<Index> found(static_cast<std::size_t>(choices));
  for (Index i = 0; i < kDraws; ++i) {
    ++found[static_cast<std::size_t>(sampler.draw(logits.tensor, 0, choices, {.token = i}))];
  }
  return found;
}

/// Σ (found − expected)² / expected; ids that cannot come must not.
double chi_square(const std::vector<Index>& found, const std::vector<double>& share) {
  double sum = 0;
  for (std::size_t i = 0; i < share.size(); ++i) {
    const double expected = share[i] * static_cast<double>(kDraws);
    if (expected == 0) {
      EXPECT_EQ(found[i], 0) << "id " << i;
    } else {
      sum += std::pow(static_cast<double>(found[i]) - expected, 2) / expected;
    }
  }
  return sum;
}

std::vector<double> softmax(std::vector<double> logits, double temperature = 1) {
  double total = 0;
  for (double& z : logits) total += z = std::exp(z / temperature);
  for (double& z : logits) z /= total;
  return logits;
}

std::set<std::size_t> drawn_ids(const OwnedTensor& logits, const SamplingSpec& spec) {
  const std::vector<Index> found = counts(logits, spec);
  std::set<std::size_t> ids;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] > 0) ids.insert(i);
  }
  return ids;
}

using Ids = std::set<std::size_t>;

/// χ² of four degrees of freedom exceeds 18.5 once in a thousand; the draws are always the same.
TEST(Sampler, DrawsFromTheSoftmax) {
  const std::vector<double> z = {0.3, -1.2, 1.5, 0.0, 0.9};
  for (const DType dtype : {DType::f32, DType::f64}) {
    const OwnedTensor logits = numbers({1, 5}, dtype, {0.3, -1.2, 1.5, 0.0, 0.9});
    for (const double temperature : {0.5, 1.0, 2.0}) {
      const auto found = counts(logits, {.temperature = temperature, .seed = 3});
      EXPECT_LT(chi_square(found, softmax(z, temperature)), 18.5) << temperature;
    }
  }
}

TEST(Sampler, ChiSquareSeesATemperatureThatIsTenPercentOff) {
  const std::vector<double> z = {0.3, -1.2, 1.5, 0.0, 0.9};
  const OwnedTensor logits = numbers({1, 5}, DType::f64, {0.3, -1.2, 1.5, 0.0, 0.9});
  EXPECT_GT(chi_square(counts(logits, {.temperature = 1.1, .seed = 3}), softmax(z)), 40);
}

TEST(Sampler, KeepsTheShapeOfTheDistributionInsideTheSet) {
  const OwnedTensor logits = numbers({1, 5}, DType::f64, {0.3, -1.2, 1.5, 0.0, 0.9});
  std::vector<double> share = softmax({0.3, 1.5, 0.9});
  share = {share[0], 0, share[1], 0, share[2]};
  EXPECT_LT(chi_square(counts(logits, {.top_k = 3, .seed = 5}), share), 13.8);
  EXPECT_LT(chi_square(counts(logits, {.top_p = 0.8, .seed = 5}), share), 13.8);
}

TEST(Sampler, TemperatureZeroTakesTheLargestAndOfEqualOnesTheFirst) {
  const OwnedTensor logits = numbers({1, 5}, DType::f32, {1, 7, 3, 7, 7});
  EXPECT_EQ(drawn_ids(logits, {.temperature = 0}), Ids{1});
}

TEST(Sampler, TemperatureHasItsLimits) {
  const OwnedTensor logits = numbers({1, 4}, DType::f32, {1, 2, 80, 79.5});
  EXPECT_EQ(drawn_ids(logits, {.temperature = 1e-300}), Ids{2});
  const auto found = counts(logits, {.temperature = 1e300});
  EXPECT_LT(chi_square(found, {0.25, 0.25, 0.25, 0.25}), 16.3);
}

TEST(Sampler, TopKIsExactlyKAlsoAmongEqualLogits) {
  const OwnedTensor logits = numbers({1, 6}, DType::f32, {2, 5, 2, 5, 2, 1});
  EXPECT_EQ(drawn_ids(logits, {.top_k = 1}), Ids{1});
  EXPECT_EQ(drawn_ids(logits, {.top_k = 2}), (Ids{1, 3}));
  EXPECT_EQ(drawn_ids(logits, {.top_k = 4}), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(drawn_ids(logits, {.top_k = 0}).size(), 6U);
  EXPECT_EQ(drawn_ids(logits, {.top_k = 100}).size(), 6U);
}

/// Probabilities 1/2, 1/4, 1/8, 1/16, 1/16 as logarithms.
TEST(Sampler, TopPIsTheSmallestSetThatHasTheShare) {
  const double ln2 = std::log(2.0);
  const OwnedTensor logits =
      numbers({1, 5}, DType::f64, {-2 * ln2, -4 * ln2, -ln2, -4 * ln2, -3 * ln2});
  EXPECT_EQ(drawn_ids(logits, {.top_p = 1e-9}), Ids{2});
  EXPECT_EQ(drawn_ids(logits, {.top_p = 0.49}), Ids{2});
  EXPECT_EQ(drawn_ids(logits, {.top_p = 0.51}), (Ids{0, 2}));
  EXPECT_EQ(drawn_ids(logits, {.top_p = 0.76}), (Ids{0, 2, 4}));
  EXPECT_EQ(drawn_ids(logits, {.top_p = 0.88}), (Ids{0, 1, 2, 4}));
  EXPECT_EQ(drawn_ids(logits, {.top_p = 1}).size(), 5U);
}

/// p counts within the k: of 1/2, 1/4 the first has two thirds.
TEST(Sampler, TopPCountsWithinTopK) {
  const double ln2 = std::log(2.0);
  const OwnedTensor logits = numbers({1, 4}, DType::f64, {-2 * ln2, -3 * ln2, -ln2, -3 * ln2});
  EXPECT_EQ(drawn_ids(logits, {.top_k = 2, .top_p = 0.6}), Ids{2});
  EXPECT_EQ(drawn_ids(logits, {.top_k = 2, .top_p = 0.7}), (Ids{0, 2}));
}

TEST(Sampler, ChoicesBeyondTheTokenizerAreNeverDrawn) {
  const OwnedTensor logits = numbers({2, 4}, DType::f32, {0, 0, 0, 0, 0, 1, 50, 60});
  Sampler sampler({});
  for (Index i = 0; i < 200; ++i) EXPECT_LT(sampler.draw(logits.tensor, 1, 2, {.token = i}), 2);
}

TEST(Sampler, ADrawDependsOnSeedSampleAndTokenAlone) {
  OwnedTensor logits({1, 1000}, DType::f32);
  const auto draw = [&](std::uint64_t seed, Index sample, Index token) {
    return Sampler({.seed = seed}).draw(logits.tensor, 0, 1000, {sample, token});
  };
  EXPECT_EQ(draw(1, 2, 3), draw(1, 2, 3));
  EXPECT_NE(draw(1, 2, 3), draw(2, 2, 3));
  EXPECT_NE(draw(1, 2, 3), draw(1, 3, 3));
  EXPECT_NE(draw(1, 2, 3), draw(1, 2, 4));
}

TEST(Sampler, LogitsThatAreNoNumbersAreAnError) {
  const OwnedTensor nan = numbers({1, 3}, DType::f32, {1, NAN, 2});
  EXPECT_TRUE(throws<Error>([&] { Sampler({}).draw(nan.tensor, 0, 3, {}); }, {"NaN for token 1"}));
  const OwnedTensor huge = numbers({1, 3}, DType::f32, {1, kInfinity, 2});
  EXPECT_TRUE(throws<Error>([&] { Sampler({}).draw(huge.tensor, 0, 3, {}); }, {"not a finite"}));
  const OwnedTensor none = numbers({1, 2}, DType::f32, {-kInfinity, -kInfinity});
  EXPECT_TRUE(throws<Error>([&] { Sampler({}).draw(none.tensor, 0, 2, {}); }, {"not a finite"}));
  const OwnedTensor some = numbers({1, 3}, DType::f32, {-kInfinity, 0, -kInfinity});
  EXPECT_EQ(drawn_ids(some, {}), Ids{1});
}

TEST(Sampler, SettingsWithoutSenseAreRefused) {
  const auto refused = [](const SamplingSpec& spec, std::string_view text) {
    EXPECT_TRUE(throws<RequestError>([&] { Sampler{spec}; }, {text}));
  };
  refused({.temperature = -0.1}, "temperature must be 0");
  refused({.temperature = kInfinity}, "temperature");
  refused({.temperature = NAN}, "temperature");
  refused({.top_k = -1}, "top_k");
  refused({.top_p = 0}, "top_p");
  refused({.top_p = 1.1}, "top_p");
  refused({.top_p = NAN}, "top_p");
}

}  // namespace
}  // namespace norma
