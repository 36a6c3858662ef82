#include "norma/ops/gated.h"

#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/base/error.h"
#include "norma/ops/activation.h"
#include "norma/tensor/plain.h"
#include "tests/support/expect.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::TestLeaf;
using test::throws;

TEST(Gated, OnesInUGiveTheActivation) {
  const OwnedTensor ones = test::numbers({1, 3}, DType::f64, {1, 1, 1});
  const OwnedTensor g = test::numbers({1, 3}, DType::f64, {-1, 0.5, 2});
  Tape tape;
  const Var gate = tape.constant(g.tensor);
  const Var y = gated(tape.constant(ones.tensor), gate, {}, {}, {.act = Activation::gelu_tanh});
  const Var want = activation(gate, Activation::gelu_tanh);
  EXPECT_TRUE(test::same_bits(y.value(), want.value()));
}

// spec §7, 26: a factor of u is a factor of y, whatever the gate does.
TEST(Gated, LinearInU) {
  const OwnedTensor u = test::normals({3, 5}, DType::f64, 1);
  const OwnedTensor g = test::normals({3, 5}, DType::f64, 2);
  const OwnedTensor doubled = test::copy_of(u.tensor);
  scale(doubled.tensor, 2);
  Tape tape;
  const Var gate = tape.constant(g.tensor);
  const Var once = gated(tape.constant(u.tensor), gate, {}, {}, {.gate_scale = 3});
  const Var twice = gated(tape.constant(doubled.tensor), gate, {}, {}, {.gate_scale = 3});
  scale(once.value(), 2);
  EXPECT_TRUE(test::same_bits(twice.value(), once.value()));
}

// spec §1.8: what is stored times the multiplier is what counts.
TEST(Gated, StoredTimesMultiplierCounts) {
  const OwnedTensor u = test::normals({2, 4}, DType::f64, 1);
  const OwnedTensor g = test::normals({2, 4}, DType::f64, 2);
  const OwnedTensor stored = test::numbers({4}, DType::f64, {0.25, 0.25, 0.25, 0.25});
  Tape tape;
  const Var s = tape.constant(stored.tensor);
  const Var plain = gated(tape.constant(u.tensor), tape.constant(g.tensor), {}, {});
  const Var scaled =
      gated(tape.constant(u.tensor), tape.constant(g.tensor), s, s, {.u_mult = 4, .v_mult = 4});
  EXPECT_TRUE(test::same_bits(scaled.value(), plain.value()));
}

TEST(Gated, MultipliersOfAbsentScalesDoNothing) {
  const OwnedTensor u = test::normals({2, 4}, DType::f64, 1);
  Tape tape;
  const Var x = tape.constant(u.tensor);
  const Var other = gated(x, x, {}, {}, {.u_mult = 7, .v_mult = 9});
  const Var plain = gated(x, x, {}, {});
  EXPECT_TRUE(test::same_bits(other.value(), plain.value()));
}

// One Var on both sides: y = x²·σ(x), y' = 2x·σ + x²·σ·(1−σ).
TEST(Gated, OneVarOnBothSides) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    TestLeaf x(test::numbers({1, 1}, dtype, {0.5}));
    Tape tape;
    const Var v = tape.watch(x);
    tape.backward(gated(v, v, {}, {}));
    const double s = 0.6224593312018546;
    EXPECT_NEAR(value_at(x.grad, 0, 0), s + 0.25 * s * (1 - s), 1e-6);
  }
}

TEST(Gated, BadInput) {
  const OwnedTensor a = test::normals({2, 4}, DType::f32, 1);
  const OwnedTensor b = test::normals({2, 3}, DType::f32, 2);
  const OwnedTensor c = test::normals({2, 4}, DType::f64, 3);
  const OwnedTensor s = test::normals({3}, DType::f32, 4);
  Tape tape;
  const Var x = tape.constant(a.tensor);
  EXPECT_TRUE(throws<RequestError>([&] { gated(x, tape.constant(b.tensor), {}, {}); },
                                   {"swiglu", "g", "(2, 4)", "(2, 3)"}));
  EXPECT_TRUE(throws<RequestError>([&] { gated(x, tape.constant(c.tensor), {}, {}); },
                                   {"swiglu", "g", "f32", "f64"}));
  EXPECT_TRUE(throws<RequestError>([&] { gated(x, x, tape.constant(s.tensor), {}); },
                                   {"swiglu", "s_u", "(4)", "(3)"}));
  EXPECT_TRUE(throws<RequestError>(
      [&] { gated(x, x, {}, tape.constant(s.tensor), {.act = Activation::gelu_tanh}); },
      {"geglu", "s_v", "(4)", "(3)"}));
  EXPECT_TRUE(throws<RequestError>([&] { gated(x, x, {}, {}, {.act = Activation::relu}); },
                                   {"gated", "silu or gelu_tanh", "relu"}));
}

}  // namespace
}  // namespace norma
