#include "norma/ops/embedding.h"

#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/base/error.h"
#include "norma/base/threads.h"
#include "norma/tensor/plain.h"
#include "tests/support/expect.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::TestLeaf;
using test::throws;

void run_backward(Tape& tape, Var y, const Tensor& seed) {
  const Var roots[] = {y};
  const Tensor seeds[] = {seed};
  tape.backward(roots, seeds, {});
}

TEST(Embedding, RowsOfTheTable) {
  const OwnedTensor ids = test::numbers({1, 3}, DType::i32, {2, 0, 2});
  const OwnedTensor table = test::numbers({3, 2}, DType::f32, {1, 2, 3, 4, 5, 6});
  const OwnedTensor want = test::numbers({1, 3, 2}, DType::f32, {5, 6, 1, 2, 5, 6});
  Tape tape;
  const Var y = embedding(tape.constant(ids.tensor), tape.constant(table.tensor), {});
  EXPECT_TRUE(test::same_bits(y.value(), want.tensor));
}

// spec §1.3: the factor stands before the sum of both.
TEST(Embedding, ScaleAppliesToTokenAndPosition) {
  const OwnedTensor ids = test::numbers({2, 2}, DType::i32, {0, 1, 1, 0});
  const OwnedTensor table = test::numbers({2, 1}, DType::f32, {1, 2});
  const OwnedTensor positions = test::numbers({4, 1}, DType::f32, {10, 20, 30, 40});
  const OwnedTensor want = test::numbers({2, 2, 1}, DType::f32, {63, 96, 66, 93});
  Tape tape;
  const Var y = embedding(tape.constant(ids.tensor),
                          tape.constant(table.tensor),
                          tape.constant(positions.tensor),
                          {.scale = 3, .first_position = 1});
  EXPECT_TRUE(test::same_bits(y.value(), want.tensor));
}

TEST(Embedding, AbsentIdsGetZeroAndRepeatedOnesAdd) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const OwnedTensor ids = test::numbers({1, 3}, DType::i32, {3, 1, 3});
    TestLeaf table(Shape{5, 2}, dtype, 1);
    const OwnedTensor seed = test::numbers({1, 3, 2}, dtype, {1, 2, 10, 20, 100, 200});
    const OwnedTensor want = test::numbers({5, 2}, dtype, {0, 0, 10, 20, 0, 0, 101, 202, 0, 0});
    Tape tape;
    run_backward(tape, embedding(tape.constant(ids.tensor), tape.watch(table), {}), seed.tensor);
    EXPECT_TRUE(test::same_bits(table.grad, want.tensor));
  }
}

TEST(Embedding, UnusedPositionsGetZero) {
  const OwnedTensor ids = test::numbers({2, 1}, DType::i32, {0, 0});
  const OwnedTensor table = test::numbers({1, 1}, DType::f32, {1});
  TestLeaf positions(Shape{3, 1}, DType::f32, 1);
  const OwnedTensor seed = test::numbers({2, 1, 1}, DType::f32, {5, 7});
  const OwnedTensor want = test::numbers({3, 1}, DType::f32, {0, 12, 0});
  Tape tape;
  run_backward(tape,
               embedding(tape.constant(ids.tensor),
                         tape.constant(table.tensor),
                         tape.watch(positions),
                         {.first_position = 1}),
               seed.tensor);
  EXPECT_TRUE(test::same_bits(positions.grad, want.tensor));
}

// Many tokens on few ids, in parallel: the sums must keep token order.
TEST(Embedding, SameBitsForAnyThreadCount) {
  OwnedTensor ids({8, 256}, DType::i32);
  test::for_each_place(ids.tensor.shape, [&](Index r, Index c) {
    set_value(ids.tensor, r, c, static_cast<double>((r * 31 + c * c) % 300));
  });
  const OwnedTensor seed = test::normals({8, 256, 48}, DType::f32, 3);
  OwnedTensor first;
  for (const int threads : {1, 2, 3, 7}) {
    const ThreadScope scope(threads);
    TestLeaf table(Shape{400, 48}, DType::f32, 1);
    Tape tape;
    run_backward(tape, embedding(tape.constant(ids.tensor), tape.watch(table), {}), seed.tensor);
    if (threads == 1) first = test::copy_of(table.grad);
    EXPECT_TRUE(test::same_bits(table.grad, first.tensor)) << threads << " threads";
  }
}

TEST(Embedding, BadInput) {
  const OwnedTensor good = test::numbers({2, 2}, DType::i32, {0, 1, 2, 3});
  const OwnedTensor large = test::numbers({2, 2}, DType::i32, {0, 1, 2, 7});
  const OwnedTensor negative = test::numbers({2, 2}, DType::i32, {0, -1, 2, 3});
  const OwnedTensor table = test::normals({5, 3}, DType::f32, 1);
  const OwnedTensor flat = test::normals({5}, DType::f32, 1);
  const OwnedTensor positions = test::normals({2, 3}, DType::f32, 2);
  const OwnedTensor narrow = test::normals({2, 4}, DType::f32, 2);
  Tape tape;
  const Var t = tape.constant(table.tensor);
  const Var ids = tape.constant(good.tensor);
  const Var p = tape.constant(positions.tensor);
  EXPECT_TRUE(throws<RequestError>([&] { embedding(tape.constant(large.tensor), t, {}); },
                                   {"embedding", "[0, 5)", "got 7", "sequence 1", "token 1"}));
  EXPECT_TRUE(throws<RequestError>([&] { embedding(tape.constant(negative.tensor), t, {}); },
                                   {"embedding", "got -1", "sequence 0", "token 1"}));
  EXPECT_TRUE(throws<RequestError>([&] { embedding(t, t, {}); }, {"embedding", "i32", "f32"}));
  EXPECT_TRUE(throws<RequestError>([&] { embedding(ids, tape.constant(flat.tensor), {}); },
                                   {"embedding", "table", "(V, C)", "(5)"}));
  EXPECT_TRUE(throws<RequestError>([&] { embedding(ids, t, tape.constant(narrow.tensor)); },
                                   {"embedding", "positions", "(2, 3)", "(2, 4)"}));
  EXPECT_TRUE(throws<RequestError>([&] { embedding(ids, t, p, {.first_position = 1}); },
                                   {"embedding", "positions", "1 to 2", "2"}));
}

}  // namespace
}  // namespace norma
