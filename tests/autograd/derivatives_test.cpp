#include "norma/autograd/derivatives.h"

#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "norma/ops/attention.h"
#include "norma/ops/linear.h"
#include "norma/ops/rms_norm.h"
#include "norma/tensor/plain.h"
#include "tests/support/expect.h"
#include "tests/support/toy_ops.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::dot;
using test::TestLeaf;
using test::throws;

constexpr Index B = 2;
constexpr Index T = 5;
constexpr Index C = 8;

/// y = W_o · attention(W_q·n, W_k·n, W_v·n) with n = rms_norm(x, gain): everything nonlinear.
struct Block {
  TestLeaf x{{B, T, C}, DType::f64, 1};
  TestLeaf gain{{C}, DType::f64, 2};
  TestLeaf wq{{C, C}, DType::f64, 3, 0.4};
  TestLeaf wk{{C, C}, DType::f64, 4, 0.4};
  TestLeaf wv{{C, C}, DType::f64, 5, 0.4};
  Tape tape;

  TapeFunction function() {
    return [this](Tape& on) {
      const Var n = rms_norm(on.watch(x), on.watch(gain));
      return attention(
          linear(n, on.watch(wq)), linear(n, on.watch(wk)), linear(n, on.watch(wv)), {.heads = 2});
    };
  }
  std::array<TestLeaf*, 5> leaves() { return {&x, &gain, &wq, &wk, &wv}; }
};

TEST(Derivatives, JacobianAndItsTransposeAgree) {
  Block block;
  const OwnedTensor u = test::normals({B, T, C}, DType::f64, 20);
  std::vector<OwnedTensor> v;
  std::vector<Direction> directions;
  for (TestLeaf* leaf : block.leaves()) {
    v.push_back(test::normals(leaf->value.shape, DType::f64, 30 + v.size()));
    directions.push_back({leaf, v.back().tensor});
  }
  const OwnedTensor jv({B, T, C}, DType::f64);
  const OwnedTensor x_before = test::copy_of(block.x.value);
  jacobian_vector(block.tape, block.function(), directions, jv.tensor);
  EXPECT_TRUE(test::same_bits(block.x.value, x_before.tensor)) << "the leaves are put back";

  block.tape.reset();
  const Var y = block.function()(block.tape);
  block.tape.backward({&y, 1}, {&u.tensor, 1}, {});
  double transposed = 0;
  for (std::size_t i = 0; i < v.size(); ++i)
    transposed += dot(directions[i].leaf->grad, v[i].tensor);
  const double forward = dot(u.tensor, jv.tensor);
  EXPECT_GT(std::abs(forward), 0.1);
  EXPECT_NEAR(forward, transposed, 1e-9 * std::abs(transposed));
}

TEST(Derivatives, JacobianOfALinearMapIsTheMap) {
  Tape tape;
  TestLeaf x({3, 4}, DType::f64, 1);
  TestLeaf w({5, 4}, DType::f64, 2);
  const OwnedTensor v = test::normals({3, 4}, DType::f64, 3, 1e3);  // any length of v
  const OwnedTensor jv({3, 5}, DType::f64);
  const std::array directions = {Direction{&x, v.tensor}};
  jacobian_vector(
      tape, [&](Tape& on) { return linear(on.watch(x), on.watch(w)); }, directions, jv.tensor);
  tape.reset();
  const Var want = linear(tape.constant(v.tensor), tape.watch(w));
  EXPECT_TRUE(test::close(jv.tensor, want.value(), 1e-10));
}

TEST(Derivatives, TheZeroDirectionGivesZero) {
  Block block;
  const OwnedTensor zero({B, T, C}, DType::f64);
  const OwnedTensor jv = test::normals({B, T, C}, DType::f64, 9);
  const std::array directions = {Direction{&block.x, zero.tensor}};
  jacobian_vector(block.tape, block.function(), directions, jv.tensor);
  EXPECT_EQ(dot(jv.tensor, jv.tensor), 0);
}

/// f = ½|W·x|² over rows has the Hessian WᵀW in every row of x.
TEST(Derivatives, HessianOfAQuadraticIsExact) {
  Tape tape;
  TestLeaf x({3, 4}, DType::f64, 1);
  TestLeaf w({6, 4}, DType::f64, 2);
  w.needs_grad = false;
  const OwnedTensor v = test::normals({3, 4}, DType::f64, 3);
  const OwnedTensor hv({3, 4}, DType::f64);
  const std::array directions = {Direction{&x, v.tensor}};
  const std::array outs = {hv.tensor};
  const auto f = [&](Tape& on) { return test::half_square(linear(on.watch(x), on.watch(w))); };
  hessian_vector(tape, f, directions, outs);
  const OwnedTensor want({3, 4}, DType::f64);
  test::for_each_place(want.tensor.shape, [&](Index r, Index c) {
    double sum = 0;
    for (Index o = 0; o < 6; ++o) {
      double along = 0;
      for (Index k = 0; k < 4; ++k) along += value_at(w.value, o, k) * value_at(v.tensor, r, k);
      sum += along * value_at(w.value, o, c);
    }
    set_value(want.tensor, r, c, sum);
  });
  EXPECT_TRUE(test::close(hv.tensor, want.tensor, 1e-10));
}

/// f = ½|W·x|² in both x and W: the mixed second derivatives are known too.
TEST(Derivatives, HessianAcrossTwoLeaves) {
  Tape tape;
  TestLeaf x(test::numbers({1, 1}, DType::f64, {3}));
  TestLeaf w(test::numbers({1, 1}, DType::f64, {2}));
  const OwnedTensor dx = test::numbers({1, 1}, DType::f64, {0.5});
  const OwnedTensor dw = test::numbers({1, 1}, DType::f64, {-0.25});
  const OwnedTensor hx({1, 1}, DType::f64);
  const OwnedTensor hw({1, 1}, DType::f64);
  const std::array directions = {Direction{&x, dx.tensor}, Direction{&w, dw.tensor}};
  const std::array outs = {hx.tensor, hw.tensor};
  const auto f = [&](Tape& on) { return test::half_square(linear(on.watch(x), on.watch(w))); };
  hessian_vector(tape, f, directions, outs);
  EXPECT_NEAR(value_at(hx.tensor, 0, 0), 2 * 2 * 0.5 + 2 * 2 * 3 * -0.25, 1e-9);  // w²·dx + 2wx·dw
  EXPECT_NEAR(value_at(hw.tensor, 0, 0), 3 * 3 * -0.25 + 2 * 2 * 3 * 0.5, 1e-9);  // x²·dw + 2wx·dx
}

TEST(Derivatives, HessianIsSymmetric) {
  Block block;
  const auto f = [&](Tape& on) { return test::half_square(block.function()(on)); };
  const OwnedTensor ux = test::normals({B, T, C}, DType::f64, 41);
  const OwnedTensor uw = test::normals({C, C}, DType::f64, 42);
  const OwnedTensor vx = test::normals({B, T, C}, DType::f64, 43);
  const OwnedTensor vw = test::normals({C, C}, DType::f64, 44);
  const auto product =
      [&](const Tensor& x, const Tensor& w, const Tensor& with_x, const Tensor& with_w) {
        const OwnedTensor hx({B, T, C}, DType::f64);
        const OwnedTensor hw({C, C}, DType::f64);
        const std::array directions = {Direction{&block.x, x}, Direction{&block.wq, w}};
        const std::array outs = {hx.tensor, hw.tensor};
        hessian_vector(block.tape, f, directions, outs);
        return dot(hx.tensor, with_x) + dot(hw.tensor, with_w);
      };
  const double vhu = product(ux.tensor, uw.tensor, vx.tensor, vw.tensor);
  const double uhv = product(vx.tensor, vw.tensor, ux.tensor, uw.tensor);
  EXPECT_GT(std::abs(vhu), 0.01);
  EXPECT_NEAR(vhu, uhv, 1e-8 * std::abs(vhu));
}

TEST(Derivatives, SinglePrecisionAndWrongShapesAreRefused) {
  Tape tape;
  TestLeaf single({2, 2}, DType::f32, 1);
  TestLeaf x({2, 2}, DType::f64, 1);
  const OwnedTensor v32 = test::normals({2, 2}, DType::f32, 2);
  const OwnedTensor v({2, 2}, DType::f64);
  const OwnedTensor ones = test::numbers({2, 2}, DType::f64, {1, 1, 1, 1});
  const OwnedTensor wide({2, 3}, DType::f64);
  const auto f = [&](Tape& on) { return test::scaled(on.watch(x), 2); };
  const auto jvp = [&](Leaf& leaf, const Tensor& along, const Tensor& out) {
    const std::array directions = {Direction{&leaf, along}};
    jacobian_vector(tape, f, directions, out);
  };
  EXPECT_TRUE(
      throws<RequestError>([&] { jvp(single, v32.tensor, v.tensor); }, {"need f64", "f32"}));
  EXPECT_THROW(jvp(x, v32.tensor, v.tensor), RequestError);
  EXPECT_TRUE(throws<RequestError>([&] { jvp(x, wide.tensor, v.tensor); },
                                   {"direction", "(2, 2)", "(2, 3)"}));
  EXPECT_TRUE(throws<RequestError>([&] { jvp(x, ones.tensor, wide.tensor); },
                                   {"jacobian_vector", "out", "(2, 2)", "(2, 3)"}));
  const std::array directions = {Direction{&x, ones.tensor}};
  EXPECT_TRUE(throws<RequestError>([&] { hessian_vector(tape, f, directions, {}); },
                                   {"hessian_vector", "1 directions", "got 0"}));
}

TEST(Derivatives, AnErrorOnTheWayPutsTheLeavesBack) {
  Tape tape;
  TestLeaf x({2, 2}, DType::f64, 1);
  const OwnedTensor before = test::copy_of(x.value);
  const OwnedTensor v = test::normals({2, 2}, DType::f64, 2);
  const OwnedTensor out({2, 2}, DType::f64);
  const std::array directions = {Direction{&x, v.tensor}};
  const auto f = [](Tape&) -> Var { throw Error("inside"); };
  EXPECT_THROW(jacobian_vector(tape, f, directions, out.tensor), Error);
  EXPECT_TRUE(test::same_bits(x.value, before.tensor));
}

}  // namespace
}  // namespace norma
