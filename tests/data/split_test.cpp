#include "norma/data/split.h"

#include <cmath>

#include <gtest/gtest.h>

namespace norma {
namespace {

TEST(Split, TheShareIsRightForAnyNumberOfDocuments) {
  for (const double fraction : {0.01, 0.1, 0.25, 0.3, 0.5, 0.77, 0.9}) {
    for (const std::uint64_t seed : {0ULL, 1ULL, 12345ULL}) {
      std::uint64_t validation = 0;
      for (std::uint64_t document = 0; document < 3000; ++document) {
        validation += is_validation(document, fraction, seed) ? 1 : 0;
        const double wanted = static_cast<double>(document + 1) * fraction;
        ASSERT_LE(std::abs(static_cast<double>(validation) - wanted), 1.0001)
            << fraction << " " << document;
      }
    }
  }
}

TEST(Split, TheFirstDocumentIsForTrainingAndNoneIsValidationWithoutAShare) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    EXPECT_FALSE(is_validation(0, 0.9, seed));
    EXPECT_FALSE(is_validation(0, 0.1, seed));
    EXPECT_FALSE(is_validation(seed, 0, seed));
    EXPECT_FALSE(is_validation(seed, 1e-300, seed));
  }
}

TEST(Split, DependsOnTheSeedAndIsDrawnEvenly) {
  int hits[10] = {};
  for (std::uint64_t seed = 0; seed < 5000; ++seed) {
    for (std::uint64_t place = 0; place < 10; ++place) {
      hits[place] += is_validation(10 + place, 0.1, seed) ? 1 : 0;
    }
  }
  for (const int count : hits) EXPECT_NEAR(count, 500, 100);
}

}  // namespace
}  // namespace norma
