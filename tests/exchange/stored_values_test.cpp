#include "norma/exchange/stored_values.h"

#include <bit>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "norma/base/text.h"

namespace norma::exchange {
namespace {

const io::StoredType& type(const char* word) { return *io::find_stored_type(word); }

std::uint16_t short_bits(const char* word, double value) {
  std::byte bytes[2];
  store_value(type(word), value, bytes);
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes, 2);
  return bits;
}

double short_value(const char* word, std::uint16_t bits) {
  std::byte bytes[2];
  std::memcpy(bytes, &bits, 2);
  return stored_value(type(word), bytes);
}

/// All 65536 values: each reads back as it is; what lies between two neighbours goes to the nearer,
/// the exact middle to the even one.
void check_every_value(const char* word, std::uint16_t infinite) {
  for (std::uint32_t sign : {0U, 0x8000U}) {
    for (std::uint32_t magnitude = 0; magnitude < infinite; ++magnitude) {
      const auto bits = static_cast<std::uint16_t>(sign | magnitude);
      const double here = short_value(word, bits);
      ASSERT_TRUE(std::isfinite(here)) << bits;
      ASSERT_EQ(short_bits(word, here), bits);
      if (magnitude + 1 >= infinite) continue;
      const double next = short_value(word, static_cast<std::uint16_t>(bits + 1));
      const double middle = here + (next - here) / 2;
      const std::uint16_t even = static_cast<std::uint16_t>(bits + (bits & 1U));
      ASSERT_EQ(short_bits(word, middle), even) << bits;
      ASSERT_EQ(short_bits(word, here + (next - here) * 0.499), bits);
      ASSERT_EQ(short_bits(word, here + (next - here) * 0.501), bits + 1);
    }
    const auto largest = static_cast<std::uint16_t>(sign | (infinite - 1U));
    EXPECT_EQ(short_bits(word, short_value(word, largest) * 1.5), sign | infinite);
    EXPECT_TRUE(std::isinf(short_value(word, static_cast<std::uint16_t>(sign | infinite))));
  }
  EXPECT_TRUE(std::isnan(short_value(word, short_bits(word, NAN))));
}

TEST(StoredValues, EveryHalf) { check_every_value("F16", 0x7c00); }
TEST(StoredValues, EveryBfloat) { check_every_value("BF16", 0x7f80); }

TEST(StoredValues, KnownHalves) {
  EXPECT_EQ(short_value("F16", 0x3c00), 1.0);
  EXPECT_EQ(short_value("F16", 0x3555), 0.333251953125);
  EXPECT_EQ(short_value("F16", 0x7bff), 65504.0);
  EXPECT_EQ(short_value("F16", 0x0001), std::ldexp(1, -24));
  EXPECT_EQ(short_value("BF16", 0x3f80), 1.0);
  EXPECT_EQ(short_bits("BF16", 3.14159265), 0x4049);
}

TEST(StoredValues, FloatsAndDoublesStayAsTheyAre) {
  std::byte bytes[8];
  store_value(type("F32"), 0.1F, bytes);
  EXPECT_EQ(stored_value(type("F32"), bytes), static_cast<double>(0.1F));
  store_value(type("F64"), 0.1, bytes);
  EXPECT_EQ(stored_value(type("F64"), bytes), 0.1);
  EXPECT_TRUE(holds_weights(type("BF16")));
  EXPECT_FALSE(holds_weights(type("I32")));
}

}  // namespace
}  // namespace norma::exchange
