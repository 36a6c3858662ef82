#include "norma/ops/patchify.h"

#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/base/error.h"
#include "tests/support/expect.h"
#include "tests/support/values.h"

namespace norma {
namespace {

TEST(Patchify, ChannelThenLineThenColumn) {
  // Two channels of 2 × 4 pixels: patches of side 2 lie side by side.
  const OwnedTensor image = test::numbers({1, 2, 2, 4},
                                          DType::f32,
                                          {1,
                                           2,
                                           3,
                                           4,
                                           5,
                                           6,
                                           7,
                                           8,  //
                                           11,
                                           12,
                                           13,
                                           14,
                                           15,
                                           16,
                                           17,
                                           18});
  const OwnedTensor want = test::numbers(
      {1, 2, 8}, DType::f32, {1, 2, 5, 6, 11, 12, 15, 16, 3, 4, 7, 8, 13, 14, 17, 18});
  Tape tape;
  const Var y = patchify(tape.constant(image.tensor), {.patch = 2});
  EXPECT_TRUE(test::same_bits(y.value(), want.tensor));
}

// A product of patches with a flattened weight [C, ch, p, p] is the convolution with stride p.
TEST(Patchify, MatchesAConvolutionWeight) {
  constexpr Index kSide = 6;
  constexpr Index kPatch = 3;
  const OwnedTensor image = test::normals({2, 2, kSide, kSide}, DType::f64, 1);
  const OwnedTensor weight = test::normals({1, 2 * kPatch * kPatch}, DType::f64, 2);
  Tape tape;
  const Var y = patchify(tape.constant(image.tensor), {.patch = kPatch});
  ASSERT_EQ(y.shape(), (Shape{2, 4, 18}));
  for (Index b = 0; b < 2; ++b) {
    for (Index n = 0; n < 4; ++n) {
      double product = 0;
      for (Index i = 0; i < 18; ++i) {
        product += value_at(y.value(), b * 4 + n, i) * value_at(weight.tensor, 0, i);
      }
      double convolution = 0;
      for (Index k = 0; k < 2; ++k) {
        for (Index r = 0; r < kPatch; ++r) {
          for (Index s = 0; s < kPatch; ++s) {
            const Index row = (b * 2 + k) * kSide + n / 2 * kPatch + r;
            convolution += value_at(weight.tensor, 0, (k * kPatch + r) * kPatch + s) *
                           value_at(image.tensor, row, n % 2 * kPatch + s);
          }
        }
      }
      EXPECT_DOUBLE_EQ(product, convolution);
    }
  }
}

TEST(Patchify, BadInput) {
  const OwnedTensor image = test::normals({1, 3, 8, 12}, DType::f32, 1);
  const OwnedTensor flat = test::normals({8, 12}, DType::f32, 2);
  Tape tape;
  const Var v = tape.constant(image.tensor);
  EXPECT_TRUE(test::throws<RequestError>([&] { patchify(v, {.patch = 3}); },
                                         {"patchify", "patch", "height", "8", "3"}));
  EXPECT_TRUE(test::throws<RequestError>([&] { patchify(v, {.patch = 8}); },
                                         {"patchify", "patch", "width", "12", "8"}));
  EXPECT_TRUE(test::throws<RequestError>([&] { patchify(v, {.patch = 0}); }, {"patchify", "0"}));
  EXPECT_TRUE(
      test::throws<RequestError>([&] { patchify(tape.constant(flat.tensor), {.patch = 2}); },
                                 {"patchify", "(B, channels, height, width)", "(8, 12)"}));
}

}  // namespace
}  // namespace norma
