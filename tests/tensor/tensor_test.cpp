#include "norma/tensor/tensor.h"

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "tests/support/expect.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::numbers;
using test::throws;

TEST(Tensor, ReadsAndWritesByRowAndColumn) {
  const OwnedTensor t = numbers({2, 3}, DType::f32, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(value_at(t.tensor, 1, 0), 4);
  set_value(t.tensor, 0, 2, -7);
  EXPECT_EQ(t.tensor.as<float>()[2], -7.0f);
  EXPECT_EQ(t.tensor.bytes(), 24U);
  EXPECT_TRUE(t.tensor.contiguous());
  EXPECT_FALSE(Tensor{});
}

TEST(Tensor, IntegersKeepTheirValues) {
  const OwnedTensor t = numbers({3}, DType::i32, {7, -8, 2147483647});
  EXPECT_EQ(t.tensor.as<std::int32_t>()[1], -8);
  EXPECT_EQ(value_at(t.tensor, 0, 2), 2147483647.0);
}

TEST(Tensor, ColumnsViewTheSameMemory) {
  const OwnedTensor t = numbers({2, 4}, DType::f64, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor part = t.tensor.columns(1, 2);
  EXPECT_EQ(part.shape, (Shape{2, 2}));
  EXPECT_EQ(part.row_stride, 4);
  EXPECT_FALSE(part.contiguous());
  EXPECT_EQ(value_at(part, 1, 0), 6);
  set_value(part, 1, 1, 70);
  EXPECT_EQ(value_at(t.tensor, 1, 2), 70);
  // Columns of columns count from the inner view.
  EXPECT_EQ(value_at(part.columns(1, 1), 0, 0), 3);
}

TEST(Tensor, ColumnsKeepLeadingDimensions) {
  const OwnedTensor t({2, 3, 8}, DType::f32);
  EXPECT_EQ(t.tensor.columns(2, 5).shape, (Shape{2, 3, 5}));
}

TEST(Tensor, ColumnsOutsideAreRefused) {
  const OwnedTensor t({2, 4}, DType::f32);
  EXPECT_TRUE(throws<RequestError>([&] { t.tensor.columns(3, 2); }, {"[3, 5)", "(2, 4)"}));
  EXPECT_TRUE(throws<RequestError>([&] { t.tensor.columns(-1, 2); }, {"[-1, 1)"}));
  EXPECT_TRUE(throws<RequestError>([&] { t.tensor.columns(0, 0); }, {"[0, 0)"}));
}

TEST(Tensor, ReshapeViewsTheSameElementsInOrder) {
  const OwnedTensor t = numbers({2, 6}, DType::f32, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const Tensor r = t.tensor.reshaped({3, 2, 2});
  EXPECT_EQ(r.data, t.tensor.data);
  EXPECT_EQ(r.row_stride, 2);
  EXPECT_EQ(value_at(r, 4, 1), 9);
}

TEST(Tensor, ReshapeNeedsTheSameCountAndContiguousRows) {
  const OwnedTensor t({2, 6}, DType::f32);
  EXPECT_TRUE(throws<RequestError>([&] { t.tensor.reshaped({5}); }, {"(2, 6)", "12", "(5)", "5"}));
  EXPECT_TRUE(throws<RequestError>([&] { t.tensor.columns(0, 3).reshaped({6}); },
                                   {"contiguous", "(2, 3)", "6 elements apart"}));
}

TEST(Tensor, OneRowIsContiguousWhateverItsStride) {
  const OwnedTensor t({1, 6}, DType::f32);
  EXPECT_TRUE(t.tensor.columns(2, 3).contiguous());
  EXPECT_NO_THROW(t.tensor.columns(2, 3).reshaped({3, 1}));
}

TEST(Tensor, TheWrongTypeIsRefused) {
  const OwnedTensor t({2, 2}, DType::f64);
  EXPECT_TRUE(throws<RequestError>([&] { t.tensor.as<float>(); }, {"f32", "f64", "(2, 2)"}));
  EXPECT_TRUE(throws<RequestError>([&] { t.tensor.elements<std::int32_t>(); }, {"i32", "f64"}));
  EXPECT_EQ(t.tensor.elements<double>().size(), 4U);
  EXPECT_TRUE(throws<RequestError>([&] { t.tensor.columns(0, 1).elements<double>(); },
                                   {"contiguous", "(2, 1)"}));
}

TEST(Tensor, SingleBf16ValuesAreRounded) {
  const OwnedTensor t({2}, DType::bf16);
  set_value(t.tensor, 0, 1, 1.0 / 3);
  EXPECT_EQ(value_at(t.tensor, 0, 0), 0);
  EXPECT_EQ(value_at(t.tensor, 0, 1), 0x1.56p-2);
}

}  // namespace
}  // namespace norma
