#include "norma/tensor/plain.h"

#include <limits>

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "norma/base/threads.h"
#include "tests/support/expect.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::for_each_place;
using test::throws;

/// Small and large enough for several threads; flat and with strided rows on either side.
struct Layout {
  Shape shape;
  Index from_padding;
  Index to_padding;
};
class Plain : public testing::TestWithParam<Layout> {
 protected:
  OwnedTensor make(Index padding, std::uint64_t stream) const {
    OwnedTensor t = test::strided(GetParam().shape, DType::f32, padding);
    test::fill_normal(t.tensor, stream);
    return t;
  }
  OwnedTensor from_ = make(GetParam().from_padding, 1);
  OwnedTensor to_ = make(GetParam().to_padding, 2);
};
INSTANTIATE_TEST_SUITE_P(Layouts,
                         Plain,
                         testing::Values(Layout{{3, 5}, 0, 0},
                                         Layout{{3, 5}, 2, 0},
                                         Layout{{3, 5}, 0, 4},
                                         Layout{{1, 70001}, 0, 0},
                                         Layout{{301, 257}, 0, 0},
                                         Layout{{301, 257}, 3, 0},
                                         Layout{{301, 257}, 0, 7},
                                         Layout{{301, 257}, 1, 2}));

TEST_P(Plain, FillTouchesTheRowsAndNothingBetween) {
  const Tensor whole(
      to_.buffer.data(), to_.tensor.shape.with_last(to_.tensor.row_stride), DType::f32);
  fill(whole, 8);
  fill(to_.tensor, 2.5);
  for_each_place(whole.shape, [&](Index r, Index c) {
    ASSERT_EQ(value_at(whole, r, c), c < to_.tensor.shape.cols() ? 2.5 : 8) << r << " " << c;
  });
}

TEST_P(Plain, CopyGivesTheSameBits) {
  copy(from_.tensor, to_.tensor);
  EXPECT_TRUE(test::same_bits(to_.tensor, from_.tensor));
}

TEST_P(Plain, AddAndScaleAreElementByElement) {
  const OwnedTensor before = test::copy_of(to_.tensor);
  add(from_.tensor, to_.tensor);
  for_each_place(to_.tensor.shape, [&](Index r, Index c) {
    const auto want = static_cast<float>(value_at(before.tensor, r, c)) +
                      static_cast<float>(value_at(from_.tensor, r, c));
    ASSERT_EQ(value_at(to_.tensor, r, c), static_cast<double>(want)) << r << " " << c;
  });
  copy(before.tensor, to_.tensor);
  add_scaled(from_.tensor, 0.5, to_.tensor);
  for_each_place(to_.tensor.shape, [&](Index r, Index c) {
    const double want = value_at(before.tensor, r, c) + 0.5 * value_at(from_.tensor, r, c);
    ASSERT_NEAR(value_at(to_.tensor, r, c), want, 1e-6) << r << " " << c;
  });
  copy(before.tensor, to_.tensor);
  scale(to_.tensor, -0.25);
  for_each_place(to_.tensor.shape, [&](Index r, Index c) {
    ASSERT_EQ(value_at(to_.tensor, r, c), -0.25 * value_at(before.tensor, r, c)) << r << " " << c;
  });
}

TEST_P(Plain, ConvertChangesTheTypeOnly) {
  const OwnedTensor wide = test::converted(from_.tensor, DType::f64);
  EXPECT_EQ(wide.tensor.dtype, DType::f64);
  EXPECT_TRUE(test::same_bits(wide.tensor, from_.tensor));
  convert(wide.tensor, to_.tensor);
  EXPECT_TRUE(test::same_bits(to_.tensor, from_.tensor));
}

TEST_P(Plain, OneThreadGivesTheSameBits) {
  add(from_.tensor, to_.tensor);
  const ThreadScope one(1);
  const OwnedTensor again = make(GetParam().to_padding, 2);
  add(from_.tensor, again.tensor);
  EXPECT_TRUE(test::same_bits(again.tensor, to_.tensor));
}

TEST_P(Plain, AllFiniteFindsOneBadElementAnywhere) {
  EXPECT_TRUE(all_finite(from_.tensor));
  const Index rows = from_.tensor.shape.rows();
  const Index cols = from_.tensor.shape.cols();
  const double bad[] = {std::numeric_limits<double>::quiet_NaN(),
                        std::numeric_limits<double>::infinity(),
                        -std::numeric_limits<double>::infinity()};
  const std::pair<Index, Index> places[] = {{0, 0}, {rows - 1, cols - 1}, {rows / 2, cols / 2}};
  for (const double value : bad) {
    for (const auto& [r, c] : places) {
      const double kept = value_at(from_.tensor, r, c);
      set_value(from_.tensor, r, c, value);
      EXPECT_FALSE(all_finite(from_.tensor)) << value << " at " << r << ", " << c;
      set_value(from_.tensor, r, c, kept);
    }
  }
}

TEST(PlainTensors, NaNBetweenStridedRowsIsNotTheirs) {
  const OwnedTensor wide({3, 4}, DType::f64);
  set_value(wide.tensor, 1, 3, std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(all_finite(wide.tensor.columns(0, 3)));
  EXPECT_FALSE(all_finite(wide.tensor));
}

TEST(PlainTensors, RowsFitWhateverTheRank) {
  const OwnedTensor from = test::normals({2, 3, 4}, DType::f64, 1);
  const OwnedTensor to({6, 4}, DType::f64);
  copy(from.tensor, to.tensor);
  EXPECT_EQ(value_at(to.tensor, 5, 3), value_at(from.tensor, 5, 3));
}

TEST(PlainTensors, ShapesAndTypesThatDoNotFitAreRefused) {
  const OwnedTensor a({2, 6}, DType::f32);
  const OwnedTensor b({3, 4}, DType::f32);
  const OwnedTensor c({2, 6}, DType::f64);
  EXPECT_TRUE(
      throws<RequestError>([&] { copy(a.tensor, b.tensor); }, {"copy", "(2, 6)", "(3, 4)"}));
  EXPECT_TRUE(throws<RequestError>([&] { add(a.tensor, b.tensor); }, {"add", "(2, 6)", "(3, 4)"}));
  EXPECT_TRUE(
      throws<RequestError>([&] { add_scaled(a.tensor, 1, b.tensor); }, {"(2, 6)", "(3, 4)"}));
  EXPECT_TRUE(throws<RequestError>([&] { convert(a.tensor, b.tensor); }, {"convert", "(3, 4)"}));
  EXPECT_TRUE(throws<RequestError>([&] { add(c.tensor, a.tensor); }, {"f32", "f64"}));
  EXPECT_TRUE(throws<RequestError>([&] { copy(c.tensor, a.tensor); }, {"f32", "f64"}));
}

TEST(PlainTensors, IntegersCanBeFilledAndCopied) {
  const OwnedTensor a({2, 3}, DType::i32);
  const OwnedTensor b({2, 3}, DType::i32);
  fill(a.tensor, 41);
  copy(a.tensor, b.tensor);
  EXPECT_EQ(value_at(b.tensor, 1, 2), 41);
  EXPECT_TRUE(all_finite(b.tensor));
}

TEST(PlainTensors, Bf16IsStoredAndConvertedOnTheCpuAndNoMore) {
  const OwnedTensor t({4}, DType::bf16);
  const OwnedTensor f({4}, DType::f32);
  fill(t.tensor, 1.0 / 3);
  convert(t.tensor, f.tensor);
  for (const float value : f.tensor.elements<float>()) EXPECT_EQ(value, 0x1.56p-2F);
  fill(f.tensor, 0x1.01p0);  // a tie goes to the even neighbour
  convert(f.tensor, t.tensor);
  EXPECT_EQ(value_at(t.tensor, 0, 3), 1.0);
  EXPECT_TRUE(throws<Error>([&] { add(t.tensor, t.tensor); }, {"bf16", "CPU"}));
  EXPECT_TRUE(throws<Error>([&] { scale(t.tensor, 2); }, {"bf16", "CPU"}));
}

TEST(PlainTensors, AHostCopyIsContiguous) {
  const OwnedTensor wide({3, 4}, DType::f32);
  for (Index r = 0; r < 3; ++r) {
    for (Index c = 0; c < 4; ++c) set_value(wide.tensor, r, c, static_cast<double>(4 * r + c));
  }
  const OwnedTensor part = host_copy(wide.tensor.columns(1, 2));
  EXPECT_TRUE(part.tensor.contiguous());
  EXPECT_EQ(value_at(part.tensor, 2, 1), 10);
}

}  // namespace
}  // namespace norma
