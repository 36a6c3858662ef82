#include "norma/ops/linear.h"

#include <array>
#include <deque>

#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/base/error.h"
#include "norma/nn/param_store.h"
#include "norma/ops/rms_norm.h"
#include "norma/tensor/plain.h"
#include "tests/support/expect.h"
#include "tests/support/toy_ops.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::TestLeaf;
using test::throws;

TEST(Linear, ValuesByHand) {
  Tape tape;
  const OwnedTensor x = test::numbers({2, 3}, DType::f64, {1, 2, 3, -1, 0, 1});
  const OwnedTensor w = test::numbers({2, 3}, DType::f64, {1, 0, 2, 0, 1, -1});
  const OwnedTensor bias = test::numbers({2}, DType::f64, {10, 20});
  const Var y =
      linear(tape.constant(x.tensor), tape.constant(w.tensor), tape.constant(bias.tensor));
  const OwnedTensor want = test::numbers({2, 2}, DType::f64, {17, 19, 11, 19});
  EXPECT_TRUE(test::same_bits(y.value(), want.tensor));
}

TEST(Linear, KeepsTheLeadingDimensions) {
  Tape tape;
  TestLeaf x({2, 3, 4}, DType::f32, 1);
  TestLeaf w({5, 4}, DType::f32, 2);
  EXPECT_EQ(linear(tape.watch(x), tape.watch(w)).shape(), (Shape{2, 3, 5}));
}

TEST(Linear, GradientsByHand) {
  Tape tape;
  TestLeaf x({3, 2}, DType::f64, 1);
  TestLeaf w({4, 2}, DType::f64, 2);
  TestLeaf bias({4}, DType::f64, 3);
  const OwnedTensor seed = test::normals({3, 4}, DType::f64, 4);
  const Var y = linear(tape.watch(x), tape.watch(w), tape.watch(bias));
  tape.backward({&y, 1}, {&seed.tensor, 1}, {});
  const auto sum = [](Index n, auto&& term) {
    double total = 0;
    for (Index i = 0; i < n; ++i) total += term(i);
    return total;
  };
  const auto d = [&](Index r, Index o) { return value_at(seed.tensor, r, o); };
  EXPECT_TRUE(test::matches(x.grad, [&](Index r, Index i) {
    return sum(4, [&](Index o) { return d(r, o) * value_at(w.value, o, i); });
  }));
  EXPECT_TRUE(test::matches(w.grad, [&](Index o, Index i) {
    return sum(3, [&](Index r) { return d(r, o) * value_at(x.value, r, i); });
  }));
  EXPECT_TRUE(test::matches(
      bias.grad, [&](Index, Index o) { return sum(3, [&](Index r) { return d(r, o); }); }));
}

// Property: a norm over the product ignores the scale of the whole matrix, not of one row.
TEST(Linear, ANormBehindItIgnoresTheScaleOfTheMatrixButNotOfARow) {
  const OwnedTensor x = test::normals({5, 8}, DType::f64, 1);
  const OwnedTensor w = test::normals({6, 8}, DType::f64, 2);
  const auto normed = [&] {
    Tape tape;
    const Var y = linear(tape.constant(x.tensor), tape.constant(w.tensor));
    return test::copy_of(rms_norm(y, {}, {.eps = 1e-30}).value());
  };
  const OwnedTensor plain = normed();
  scale(w.tensor, 7);
  EXPECT_TRUE(test::close(normed().tensor, plain.tensor, 1e-12));
  scale(Tensor(w.tensor.data, {1, 8}, DType::f64), 3);
  EXPECT_FALSE(test::close(normed().tensor, plain.tensor, 1e-2));
}

TEST(Linear, FusedMatricesAreOneProductAndStaySplittable) {
  ParamStore params;
  const std::size_t fused = params.add_fused({{"q", {4, 6}, {}}, {"k", {2, 6}, {}}});
  params.allocate(DType::f64);
  test::fill_normal(params.values(), 1);
  TestLeaf x({5, 6}, DType::f64, 2);
  const OwnedTensor seed = test::normals({5, 6}, DType::f64, 3);
  Tape tape;
  const auto parts = test::split(linear(tape.watch(x), tape.watch(params.leaf(fused))), {4, 2});
  const std::array roots = {test::scaled(parts[0], 1), test::scaled(parts[1], 1)};
  const std::array seeds = {seed.tensor.columns(0, 4), seed.tensor.columns(4, 2)};
  tape.backward(roots, seeds, {});
  const OwnedTensor dx = test::copy_of(x.grad);

  // The same with two products.
  TestLeaf q(test::copy_of(params.value(params.find("q"))));
  TestLeaf k(test::copy_of(params.value(params.find("k"))));
  tape.reset();
  x.fresh = true;
  const Var input = tape.watch(x);
  const std::array apart = {linear(input, tape.watch(q)), linear(input, tape.watch(k))};
  tape.backward(apart, seeds, {});
  EXPECT_TRUE(test::close(params.grad(params.find("q")), q.grad, 1e-13));
  EXPECT_TRUE(test::close(params.grad(params.find("k")), k.grad, 1e-13));
  EXPECT_TRUE(test::close(dx.tensor, x.grad, 1e-13));
}

TEST(Linear, WhatItIsAddedToMayBeItsInput) {
  TestLeaf x({5, 4}, DType::f64, 1);
  TestLeaf w({4, 4}, DType::f64, 2);
  const OwnedTensor seed = test::normals({5, 4}, DType::f64, 3);
  Tape tape;
  const Var made = test::scaled(tape.watch(x), 2);
  const Var y = linear(made, tape.watch(w), {}, made);
  EXPECT_TRUE(test::matches(y.value(), [&](Index r, Index o) {
    double sum = 2 * value_at(x.value, r, o);
    for (Index i = 0; i < 4; ++i) sum += 2 * value_at(x.value, r, i) * value_at(w.value, o, i);
    return sum;
  }));
  tape.backward({&y, 1}, {&seed.tensor, 1}, {});
  EXPECT_TRUE(test::matches(x.grad, [&](Index r, Index i) {
    double sum = 2 * value_at(seed.tensor, r, i);
    for (Index o = 0; o < 4; ++o) {
      sum += 2 * value_at(seed.tensor, r, o) * value_at(w.value, o, i);
    }
    return sum;
  }));
}

TEST(Linear, OnlyWantedGradientsAreMade) {
  Tape tape;
  TestLeaf x({3, 4}, DType::f64, 1);
  TestLeaf w({5, 4}, DType::f64, 2);
  w.needs_grad = false;
  const Var y = linear(tape.watch(x), tape.watch(w));
  const OwnedTensor seed = test::normals({3, 5}, DType::f64, 3);
  tape.backward({&y, 1}, {&seed.tensor, 1}, {});
  EXPECT_EQ(value_at(w.grad, 0, 0), 99);
  EXPECT_FALSE(x.fresh);

  TestLeaf onto({3, 5}, DType::f64, 4);
  onto.needs_grad = false;
  tape.reset();
  const Var sum = linear(tape.watch(x), tape.watch(w), {}, tape.watch(onto));
  tape.backward({&sum, 1}, {&seed.tensor, 1}, {});
  EXPECT_EQ(value_at(onto.grad, 0, 0), 99);
}

TEST(Linear, BadInputsAreRefusedWithASentence) {
  Tape tape;
  const auto f32 = [&](const Shape& shape) {
    static std::deque<OwnedTensor> memory;
    memory.emplace_back(shape, DType::f32);
    return tape.constant(memory.back().tensor);
  };
  const OwnedTensor ids({3, 4}, DType::i32);
  const OwnedTensor wide({5, 4}, DType::f64);
  const OwnedTensor wide_bias({5}, DType::f64);
  const Var x = f32({3, 4});
  const Var w = f32({5, 4});
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        linear(x, f32({5, 3}));
      },
      {"linear", "weight", "(O, I) with I = 4", "(5, 3)"}));
  EXPECT_TRUE(
      throws<ShapeError>([&] { linear(x, f32({4})); }, {"linear", "weight", "I = 4", "(4)"}));
  EXPECT_TRUE(throws<ShapeError>([&] { linear(x, f32({5, 4, 1})); }, {"linear", "(5, 4, 1)"}));
  EXPECT_TRUE(
      throws<ShapeError>([&] { linear(x, w, f32({4})); }, {"linear", "bias", "(5)", "(4)"}));
  EXPECT_TRUE(throws<RequestError>([&] { linear({}, w); }, {"linear", "x is missing"}));
  EXPECT_TRUE(throws<RequestError>([&] { linear(x, {}); }, {"linear", "weight is missing"}));
  EXPECT_TRUE(throws<RequestError>([&] { linear(tape.constant(ids.tensor), w); },
                                   {"linear", "x", "floating-point", "i32"}));
  EXPECT_TRUE(throws<RequestError>([&] { linear(x, tape.constant(wide.tensor)); },
                                   {"linear", "weight must be f32", "f64"}));
  EXPECT_TRUE(throws<RequestError>([&] { linear(x, w, tape.constant(wide_bias.tensor)); },
                                   {"linear", "bias must be f32", "f64"}));
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        linear(x, w, {}, f32({3, 4}));
      },
      {"linear", "onto", "(3, 5)", "(3, 4)"}));
  EXPECT_TRUE(throws<RequestError>(
      [&] {
        linear(x, f32({4, 4}), {}, tape.constant(wide.tensor));
      },
      {"linear", "onto must be f32", "f64"}));
  EXPECT_TRUE(throws<RequestError>(
      [&] {
        linear(x, w, f32({5}), f32({3, 5}));
      },
      {"linear", "added to something", "no bias"}));
}

TEST(Linear, AnOutputThatDoesNotFitInMemoryIsRefused) {
  Tape tape;
  const OwnedTensor x({1 << 21, 1}, DType::f32);
  const OwnedTensor w({1 << 21, 1}, DType::f32);
  EXPECT_TRUE(throws<MemoryError>([&] { linear(tape.constant(x.tensor), tape.constant(w.tensor)); },
                                  {"wanted 16.0 TiB"}));
}

}  // namespace
}  // namespace norma
