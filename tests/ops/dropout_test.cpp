#include "norma/ops/dropout.h"

#include <cmath>

#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/base/error.h"
#include "norma/ops/dispatch.h"
#include "norma/tensor/plain.h"
#include "tests/support/expect.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::TestLeaf;
using test::throws;

OwnedTensor ones(Shape shape, DType dtype = DType::f32) {
  OwnedTensor owned(shape, dtype);
  fill(owned.tensor, 1);
  return owned;
}

double share_kept(const Tensor& y) {
  double kept = 0;
  test::for_each_place(y.shape, [&](Index r, Index c) { kept += value_at(y, r, c) != 0; });
  return kept / static_cast<double>(y.count());
}

TEST(Dropout, KeepsTheShareAndTheMean) {
  const OwnedTensor x = ones({400, 250});
  Tape tape;
  const Var y = dropout(tape.constant(x.tensor), {.rate = 0.2, .key = {1, 2}});
  // 100000 draws: four standard deviations are 0.005.
  EXPECT_NEAR(share_kept(y.value()), 0.8, 0.005);
  test::for_each_place(y.shape(), [&](Index r, Index c) {
    const double value = value_at(y.value(), r, c);
    ASSERT_TRUE(value == 0 || value == 1.25) << value;
  });
}

// Counting kept elements per column and per row would show a mask that repeats itself.
TEST(Dropout, RowsAndColumnsDrawSeparately) {
  const OwnedTensor x = ones({200, 200});
  Tape tape;
  const Var y = dropout(tape.constant(x.tensor), {.rate = 0.5, .key = {1, 2}});
  for (Index i = 0; i < 200; ++i) {
    double in_row = 0;
    double in_column = 0;
    for (Index k = 0; k < 200; ++k) {
      in_row += value_at(y.value(), i, k) != 0;
      in_column += value_at(y.value(), k, i) != 0;
    }
    // Of 200 fair draws, 100 ± 35 is five standard deviations.
    EXPECT_NEAR(in_row, 100, 35) << "row " << i;
    EXPECT_NEAR(in_column, 100, 35) << "column " << i;
  }
}

TEST(Dropout, OtherKeysOtherMasks) {
  const OwnedTensor x = ones({8, 64});
  Tape tape;
  const Var v = tape.constant(x.tensor);
  const Var a = dropout(v, {.rate = 0.5, .key = {1, 2}});
  const Var again = dropout(v, {.rate = 0.5, .key = {1, 2}});
  const Var stream = dropout(v, {.rate = 0.5, .key = {1, 3}});
  const Var seed = dropout(v, {.rate = 0.5, .key = {2, 2}});
  EXPECT_TRUE(test::same_bits(a.value(), again.value()));
  EXPECT_FALSE(test::same_bits(a.value(), stream.value()));
  EXPECT_FALSE(test::same_bits(a.value(), seed.value()));
}

// What a graph that is replayed depends on: the number is looked at when the mask is drawn.
TEST(Dropout, EveryStepHasAMaskOfItsOwn) {
  const OwnedTensor x = ones({8, 6, 64});
  const OwnedTensor step({1}, DType::i32);
  for (const auto op : {dropout, drop_path}) {
    Tape tape;
    const Var v = tape.constant(x.tensor);
    const auto mask_of = [&](std::uint64_t stream, const Tensor& number) {
      return op(v, {.rate = 0.5, .key = {1, stream}, .step = number}).value();
    };
    const Tensor none = mask_of(2, {});
    EXPECT_TRUE(test::same_bits(mask_of(2, step.tensor), none));
    set_value(step.tensor, 0, 0, 3);
    const Tensor third = mask_of(2, step.tensor);
    EXPECT_FALSE(test::same_bits(third, none));
    EXPECT_TRUE(test::same_bits(third, mask_of(2 + (3 << 20), {})));
    set_value(step.tensor, 0, 0, 0);
  }
}

TEST(Dropout, FastAndReferenceDrawTheSameMask) {
  const OwnedTensor x = ones({7, 300});
  const OwnedTensor step({1}, DType::i32);
  set_value(step.tensor, 0, 0, 1e9);
  const DropSpec spec = {
      .rate = 0.3, .key = {0x123456789abcdefULL, 0xfedcba987654321ULL}, .step = step.tensor};
  Tape tape;
  const Var fast = dropout(tape.constant(x.tensor), spec);
  use_reference_kernels(true);
  const Var plain = dropout(tape.constant(x.tensor), spec);
  use_reference_kernels(false);
  EXPECT_TRUE(test::same_bits(fast.value(), plain.value()));
}

TEST(Dropout, BackwardUsesTheSameMask) {
  TestLeaf x(ones({3, 100}));
  const OwnedTensor seed = ones({3, 100});
  Tape tape;
  const Var y = dropout(tape.watch(x), {.rate = 0.4, .key = {1, 2}});
  const OwnedTensor value = test::copy_of(y.value());
  const Var roots[] = {y};
  const Tensor seeds[] = {seed.tensor};
  tape.backward(roots, seeds, {});
  EXPECT_TRUE(test::same_bits(x.grad, value.tensor));
}

TEST(Dropout, RateZeroAndEvaluationReturnTheInput) {
  const OwnedTensor x = ones({2, 3});
  Tape tape;
  const Var v = tape.constant(x.tensor);
  EXPECT_EQ(dropout(v, {.rate = 0}).value().data, x.tensor.data);
  EXPECT_EQ(dropout(v, {.rate = 0.5, .training = false}).value().data, x.tensor.data);
  EXPECT_EQ(drop_path(v, {.rate = 0}).value().data, x.tensor.data);
  EXPECT_EQ(drop_path(v, {.rate = 0.5, .training = false}).value().data, x.tensor.data);
}

TEST(DropPath, SamplesAreKeptOrDroppedWhole) {
  const OwnedTensor x = ones({2000, 2, 3});
  Tape tape;
  const Var y = drop_path(tape.constant(x.tensor), {.rate = 0.25, .key = {1, 2}});
  // 2000 draws: four standard deviations are 0.039.
  EXPECT_NEAR(share_kept(y.value()), 0.75, 0.039);
  test::for_each_place(y.shape(), [&](Index r, Index c) {
    ASSERT_EQ(value_at(y.value(), r, c), value_at(y.value(), r / 2 * 2, 0));
  });
}

TEST(Dropout, BadInput) {
  const OwnedTensor x = ones({2, 3});
  const OwnedTensor flat = ones({3});
  Tape tape;
  const Var v = tape.constant(x.tensor);
  EXPECT_TRUE(throws<RequestError>([&] { dropout(v, {.rate = 1}); }, {"dropout", "[0, 1)", "1"}));
  EXPECT_TRUE(throws<RequestError>([&] { dropout(v, {.rate = -0.5}); }, {"dropout", "-0.5"}));
  EXPECT_TRUE(throws<RequestError>([&] { drop_path(v, {.rate = std::nan("")}); }, {"drop_path"}));
  EXPECT_TRUE(throws<ShapeError>([&] { dropout(v, {.rate = 0.5, .step = flat.tensor}); },
                                 {"dropout", "step", "(1)", "(3)"}));
  EXPECT_TRUE(throws<RequestError>([&] { drop_path(tape.constant(flat.tensor), {.rate = 0.5}); },
                                   {"drop_path", "(B, ...)", "(3)"}));
}

}  // namespace
}  // namespace norma
