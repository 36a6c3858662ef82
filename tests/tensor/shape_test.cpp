#include "norma/tensor/shape.h"

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "tests/support/expect.h"

namespace norma {
namespace {

TEST(Shape, CountsRowsAndColumns) {
  const Shape s{2, 3, 4};
  EXPECT_EQ(s.rank(), 3);
  EXPECT_EQ(s.count(), 24);
  EXPECT_EQ(s.cols(), 4);
  EXPECT_EQ(s.rows(), 6);
  EXPECT_EQ(s[0], 2);
  EXPECT_EQ(s[-1], 4);
  EXPECT_EQ(s[-3], 2);
  EXPECT_EQ(s.text(), "(2, 3, 4)");
}

TEST(Shape, AScalarHasOneElement) {
  const Shape s;
  EXPECT_EQ(s.rank(), 0);
  EXPECT_EQ(s.count(), 1);
  EXPECT_EQ(s.rows(), 1);
  EXPECT_EQ(s.cols(), 1);
  EXPECT_EQ(s.text(), "()");
}

TEST(Shape, EqualityLooksAtRankAndSizes) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_FALSE((Shape{2, 3}) == (Shape{3, 2}));
  EXPECT_FALSE((Shape{6}) == (Shape{6, 1}));
  EXPECT_FALSE((Shape{1}) == Shape{});
}

TEST(Shape, LastDimensionCanBeReplacedRemovedOrAppended) {
  EXPECT_EQ((Shape{2, 3, 4}).with_last(7), (Shape{2, 3, 7}));
  EXPECT_EQ((Shape{2, 3, 4}).without_last(), (Shape{2, 3}));
  EXPECT_EQ((Shape{5}).without_last(), Shape{});
  Shape s{2};
  s.append(9);
  EXPECT_EQ(s, (Shape{2, 9}));
}

TEST(Shape, ZeroAndNegativeSizesAreRefused) {
  EXPECT_TRUE(test::throws<RequestError>(
      [] {
        Shape{3, 0};
      },
      {"1 or more", "got 0", "dimension 1"}));
  EXPECT_TRUE(test::throws<RequestError>([] { Shape{-5}; }, {"got -5", "dimension 0"}));
  EXPECT_TRUE(test::throws<RequestError>([] { Shape{2, 3}.with_last(0); }, {"got 0"}));
}

TEST(Shape, TooManyDimensionsAreRefused) {
  EXPECT_NO_THROW((Shape{1, 1, 1, 1, 1}));
  EXPECT_TRUE(test::throws<RequestError>(
      [] {
        Shape{1, 1, 1, 1, 1, 1};
      },
      {"at most 5", "dimensions"}));
}

TEST(Shape, AProductThatOverflowsIsRefused) {
  constexpr Index kLarge = Index{1} << 32;
  EXPECT_TRUE(test::throws<RequestError>([] { Shape{kLarge, kLarge}; }, {"too many elements"}));
  // 2^62 elements can be counted, but their bytes cannot.
  EXPECT_TRUE(test::throws<RequestError>(
      [] {
        Shape{Index{1} << 31, Index{1} << 31};
      },
      {"too many"}));
  EXPECT_NO_THROW((Shape{1 << 20, 1 << 20}));
}

TEST(Shape, ARefusedAppendLeavesTheShapeAsItWas) {
  Shape s{2, 3};
  EXPECT_THROW(s.append(0), RequestError);
  EXPECT_EQ(s, (Shape{2, 3}));
}

}  // namespace
}  // namespace norma
