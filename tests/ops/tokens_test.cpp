#include "norma/ops/tokens.h"

#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/base/error.h"
#include "tests/support/expect.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::TestLeaf;
using test::throws;

// Two sequences of three tokens of width 1.
OwnedTensor six() { return test::numbers({2, 3, 1}, DType::f32, {1, 2, 3, 4, 5, 6}); }

TEST(PrependToken, StandsFirstInEverySequence) {
  TestLeaf x(six());
  TestLeaf token(test::numbers({1}, DType::f32, {9}));
  const OwnedTensor seed = test::numbers({2, 4, 1}, DType::f32, {1, 2, 3, 4, 10, 20, 30, 40});
  const OwnedTensor want = test::numbers({2, 4, 1}, DType::f32, {9, 1, 2, 3, 9, 4, 5, 6});
  const OwnedTensor want_dx = test::numbers({2, 3, 1}, DType::f32, {2, 3, 4, 20, 30, 40});
  Tape tape;
  const Var y = prepend_token(tape.watch(x), tape.watch(token));
  EXPECT_TRUE(test::same_bits(y.value(), want.tensor));
  const Var roots[] = {y};
  const Tensor seeds[] = {seed.tensor};
  tape.backward(roots, seeds, {});
  EXPECT_TRUE(test::same_bits(x.grad, want_dx.tensor));
  EXPECT_EQ(value_at(token.grad, 0, 0), 11);
}

TEST(AddPositions, TheSameForEverySequence) {
  const OwnedTensor x = six();
  const OwnedTensor positions = test::numbers({3, 1}, DType::f32, {10, 20, 30});
  const OwnedTensor want = test::numbers({2, 3, 1}, DType::f32, {11, 22, 33, 14, 25, 36});
  Tape tape;
  const Var y = add_positions(tape.constant(x.tensor), tape.constant(positions.tensor));
  EXPECT_TRUE(test::same_bits(y.value(), want.tensor));
}

TEST(MeanPool, AllTokensOrThoseAfterTheFirst) {
  const OwnedTensor x = six();
  const OwnedTensor all = test::numbers({2, 1}, DType::f32, {2, 5});
  const OwnedTensor rest = test::numbers({2, 1}, DType::f32, {2.5, 5.5});
  Tape tape;
  const Var v = tape.constant(x.tensor);
  EXPECT_TRUE(test::close(mean_pool(v).value(), all.tensor, 1e-7));
  EXPECT_TRUE(test::same_bits(mean_pool(v, {.first = 1}).value(), rest.tensor));
}

TEST(SelectToken, FromTheStartOrTheEnd) {
  TestLeaf x(six());
  const OwnedTensor second = test::numbers({2, 1}, DType::f32, {2, 5});
  const OwnedTensor seed = test::numbers({2, 1}, DType::f32, {7, 8});
  const OwnedTensor want_dx = test::numbers({2, 3, 1}, DType::f32, {0, 0, 7, 0, 0, 8});
  Tape tape;
  const Var v = tape.watch(x);
  EXPECT_TRUE(test::same_bits(select_token(v, 1).value(), second.tensor));
  EXPECT_TRUE(test::same_bits(select_token(v, -2).value(), second.tensor));
  const Var roots[] = {select_token(v, -1)};
  const Tensor seeds[] = {seed.tensor};
  tape.backward(roots, seeds, {});
  EXPECT_TRUE(test::same_bits(x.grad, want_dx.tensor));
}

TEST(Tokens, BadInput) {
  const OwnedTensor x = six();
  const OwnedTensor flat = test::normals({6, 1}, DType::f32, 1);
  const OwnedTensor two = test::normals({2}, DType::f32, 2);
  const OwnedTensor short_table = test::normals({2, 1}, DType::f32, 3);
  Tape tape;
  const Var v = tape.constant(x.tensor);
  const Var bad = tape.constant(flat.tensor);
  EXPECT_TRUE(throws<RequestError>([&] { prepend_token(bad, tape.constant(two.tensor)); },
                                   {"prepend_token", "(B, T, C)", "(6, 1)"}));
  EXPECT_TRUE(throws<RequestError>([&] { prepend_token(v, tape.constant(two.tensor)); },
                                   {"prepend_token", "token", "(1)", "(2)"}));
  EXPECT_TRUE(throws<RequestError>([&] { add_positions(v, tape.constant(short_table.tensor)); },
                                   {"add_positions", "positions", "(3, 1)", "(2, 1)"}));
  EXPECT_TRUE(throws<RequestError>([&] { mean_pool(v, {.first = 3}); },
                                   {"mean_pool", "first", "0 to 2", "3"}));
  EXPECT_TRUE(
      throws<RequestError>([&] { select_token(v, 3); }, {"select_token", "-3 to 2", "got 3"}));
  EXPECT_TRUE(
      throws<RequestError>([&] { select_token(v, -4); }, {"select_token", "-3 to 2", "got -4"}));
}

}  // namespace
}  // namespace norma
