#include "norma/ops/layer_norm.h"

#include <cmath>

#include <gtest/gtest.h>

#include "norma/ops/rms_norm.h"
#include "tests/support/expect.h"
#include "tests/support/run_op.h"

namespace norma::test {
namespace {

constexpr double kTight = 1e-10;
constexpr LayerNormSpec kNoEps{.eps = 0};

OwnedTensor plain_norm(const Tensor& x, LayerNormSpec spec = kNoEps) {
  return run_op([&](Tape& tape) { return layer_norm(tape.constant(x), {}, {}, spec); });
}

OwnedTensor affine(const Tensor& x, double a, double b) {
  return tabulated(x.shape, x.dtype, [&](Index r, Index c) { return a * value_at(x, r, c) + b; });
}

TEST(LayerNorm, IgnoresShiftAndScaleAndFlipsWithTheSign) {
  const OwnedTensor x = normals({5, 33}, DType::f64, 1);
  const OwnedTensor y = plain_norm(x.tensor);
  EXPECT_TRUE(close(plain_norm(affine(x.tensor, 3.5, 100).tensor).tensor, y.tensor, kTight));
  const OwnedTensor flipped = affine(y.tensor, -1, 0);
  EXPECT_TRUE(close(plain_norm(affine(x.tensor, -2, 7).tensor).tensor, flipped.tensor, kTight));
}

TEST(LayerNorm, DoesNotIgnoreAShiftThatDiffersBetweenColumns) {
  const OwnedTensor x = normals({2, 16}, DType::f64, 2);
  const OwnedTensor moved = tabulated({2, 16}, DType::f64, [&](Index r, Index c) {
    return value_at(x.tensor, r, c) + 0.1 * static_cast<double>(c);
  });
  EXPECT_FALSE(close(plain_norm(moved.tensor).tensor, plain_norm(x.tensor).tensor, 1e-3));
}

TEST(LayerNorm, RowsHaveMeanZeroAndMeanSquareOne) {
  const OwnedTensor y = plain_norm(normals({4, 50}, DType::f64, 3).tensor);
  for (Index r = 0; r < 4; ++r) {
    double sum = 0;
    double squares = 0;
    for (Index c = 0; c < 50; ++c) {
      sum += value_at(y.tensor, r, c);
      squares += value_at(y.tensor, r, c) * value_at(y.tensor, r, c);
    }
    EXPECT_NEAR(sum / 50, 0, kTight);
    EXPECT_NEAR(squares / 50, 1, kTight);
  }
}

TEST(LayerNorm, IsRmsNormOfTheCentredRow) {
  const OwnedTensor x = normals({3, 20}, DType::f64, 4);
  const OwnedTensor centred = tabulated({3, 20}, DType::f64, [&](Index r, Index c) {
    double mean = 0;
    for (Index k = 0; k < 20; ++k) mean += value_at(x.tensor, r, k) / 20;
    return value_at(x.tensor, r, c) - mean;
  });
  const OwnedTensor want = run_op(
      [&](Tape& tape) { return rms_norm(tape.constant(centred.tensor), {}, {.eps = 1e-5}); });
  EXPECT_TRUE(close(plain_norm(x.tensor, {}).tensor, want.tensor, kTight));
}

TEST(LayerNorm, AddsABiasWithoutAGain) {
  const OwnedTensor x = normals({3, 8}, DType::f64, 5);
  TestLeaf bias({8}, DType::f64, 6);
  const OwnedTensor seed = normals({3, 8}, DType::f64, 7);
  const OwnedTensor y =
      run_op([&](Tape& tape) { return layer_norm(tape.constant(x.tensor), {}, tape.watch(bias)); },
             seed.tensor);
  const OwnedTensor bare = plain_norm(x.tensor, {});
  const OwnedTensor want = tabulated({3, 8}, DType::f64, [&](Index r, Index c) {
    return value_at(bare.tensor, r, c) + value_at(bias.value, 0, c);
  });
  EXPECT_TRUE(close(y.tensor, want.tensor, 1e-14));
  for (Index c = 0; c < 8; ++c) {
    double sum = 0;
    for (Index r = 0; r < 3; ++r) sum += value_at(seed.tensor, r, c);
    EXPECT_NEAR(value_at(bias.grad, 0, c), sum, 1e-14);
  }
}

TEST(LayerNorm, AConstantRowGivesExactlyTheBias) {
  const OwnedTensor x =
      tabulated({2, 257}, DType::f32, [](Index r, Index) { return r == 0 ? 0.1 : 12345.678; });
  TestLeaf gain({257}, DType::f32, 8);
  TestLeaf bias({257}, DType::f32, 9);
  const OwnedTensor y = run_op([&](Tape& tape) {
    return layer_norm(tape.constant(x.tensor), tape.watch(gain), tape.watch(bias));
  });
  for_each_place({2, 257}, [&](Index r, Index c) {
    EXPECT_EQ(value_at(y.tensor, r, c), value_at(bias.value, 0, c));
  });
}

TEST(LayerNorm, GradientIsOrthogonalToShiftAndScale) {
  TestLeaf x({4, 32}, DType::f64, 10);
  const OwnedTensor seed = normals({4, 32}, DType::f64, 11);
  run_op([&](Tape& tape) { return layer_norm(tape.watch(x), {}, {}, kNoEps); }, seed.tensor);
  for (Index r = 0; r < 4; ++r) {
    double sum = 0;
    double along = 0;
    for (Index c = 0; c < 32; ++c) {
      sum += value_at(x.grad, r, c);
      along += value_at(x.grad, r, c) * value_at(x.value, r, c);
    }
    EXPECT_NEAR(sum, 0, kTight);
    EXPECT_NEAR(along, 0, kTight);
  }
}

TEST(LayerNorm, GradientShrinksAsTheInputGrows) {
  TestLeaf x({3, 24}, DType::f64, 12);
  TestLeaf larger(affine(x.value, 8, 0));
  const OwnedTensor seed = normals({3, 24}, DType::f64, 13);
  for (TestLeaf* leaf : {&x, &larger}) {
    run_op([&](Tape& tape) { return layer_norm(tape.watch(*leaf), {}, {}, kNoEps); }, seed.tensor);
  }
  EXPECT_TRUE(close(affine(larger.grad, 8, 0).tensor, x.grad, kTight));
}

TEST(LayerNorm, HeadsAreRowsOfTheirOwn) {
  const OwnedTensor x = normals({6, 40}, DType::f32, 14);
  TestLeaf gain({8}, DType::f32, 15);
  TestLeaf bias({8}, DType::f32, 16);
  const OwnedTensor heads = run_op([&](Tape& tape) {
    return layer_norm(tape.constant(x.tensor), tape.watch(gain), tape.watch(bias), {.group = 8});
  });
  const OwnedTensor rows = run_op([&](Tape& tape) {
    return layer_norm(
        tape.constant(x.tensor.reshaped({30, 8})), tape.watch(gain), tape.watch(bias));
  });
  EXPECT_TRUE(same_bits(heads.tensor.reshaped({30, 8}), rows.tensor));
}

TEST(LayerNorm, SaysWhatItWanted) {
  Tape tape;
  const OwnedTensor x = normals({2, 12}, DType::f32, 17);
  const OwnedTensor wrong = normals({11}, DType::f32, 18);
  const OwnedTensor other_type = normals({12}, DType::f64, 19);
  const OwnedTensor ids(Shape{2, 12}, DType::i32);
  const Var v = tape.constant(x.tensor);
  EXPECT_TRUE(throws<RequestError>([&] { layer_norm(v, tape.constant(wrong.tensor), {}); },
                                   {"layer_norm", "gain", "(12)", "(11)"}));
  EXPECT_TRUE(throws<RequestError>([&] { layer_norm(v, {}, tape.constant(wrong.tensor)); },
                                   {"layer_norm", "bias", "(12)", "(11)"}));
  EXPECT_TRUE(throws<RequestError>([&] { layer_norm(v, {}, tape.constant(other_type.tensor)); },
                                   {"layer_norm", "bias", "f32", "f64"}));
  EXPECT_TRUE(throws<RequestError>([&] { layer_norm(v, {}, {}, {.group = 5}); },
                                   {"layer_norm", "group", "12", "5"}));
  EXPECT_TRUE(throws<RequestError>([&] { layer_norm(tape.constant(ids.tensor), {}, {}); },
                                   {"layer_norm", "floating-point", "i32"}));
  EXPECT_TRUE(throws<RequestError>([&] { layer_norm({}, {}, {}); }, {"layer_norm", "missing"}));
}

}  // namespace
}  // namespace norma::test
