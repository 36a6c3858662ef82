#include "norma/ops/weight_norm.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/support/expect.h"
#include "tests/support/run_op.h"

namespace norma::test {
namespace {

double length(const Tensor& m, bool column, Index k) {
  double squares = 0;
  const Index n = column ? m.shape[0] : m.shape[1];
  for (Index i = 0; i < n; ++i) {
    squares += std::pow(column ? value_at(m, i, k) : value_at(m, k, i), 2);
  }
  return std::sqrt(squares);
}

TEST(WeightNorm, LengthsOfVAsGainGiveBackV) {
  const OwnedTensor v = normals({24, 100}, DType::f32, 1, 0.02);
  TestLeaf g(
      tabulated({24}, DType::f32, [&](Index, Index k) { return length(v.tensor, false, k); }));
  const OwnedTensor w =
      run_op([&](Tape& tape) { return weight_norm(tape.constant(v.tensor), tape.watch(g)); });
  EXPECT_TRUE(close(w.tensor, v.tensor, 1e-6));
}

TEST(WeightNorm, UnitVectorsLieAlongTheChosenAxis) {
  const OwnedTensor v = normals({7, 70}, DType::f32, 2, 3);
  for (const bool column : {false, true}) {
    const WeightNormSpec spec{column ? WeightAxis::columns : WeightAxis::rows};
    const OwnedTensor w =
        run_op([&](Tape& tape) { return weight_norm(tape.constant(v.tensor), {}, spec); });
    for (Index k = 0; k < (column ? 70 : 7); ++k) {
      EXPECT_NEAR(length(w.tensor, column, k), 1, 1e-6);
    }
    EXPECT_GT(std::abs(length(w.tensor, !column, 0) - 1), 0.1);
  }
}

TEST(WeightNorm, GradientOfVIsOrthogonalToV) {
  for (const bool column : {false, true}) {
    TestLeaf v({9, 11}, DType::f64, 3);
    TestLeaf g({column ? 11 : 9}, DType::f64, 4);
    const OwnedTensor seed = normals({9, 11}, DType::f64, 5);
    const WeightNormSpec spec{column ? WeightAxis::columns : WeightAxis::rows};
    run_op([&](Tape& tape) { return weight_norm(tape.watch(v), tape.watch(g), spec); },
           seed.tensor);
    for (Index k = 0; k < g.value.count(); ++k) {
      double along = 0;
      for (Index i = 0; i < (column ? 9 : 11); ++i) {
        const Index r = column ? i : k;
        const Index c = column ? k : i;
        along += value_at(v.grad, r, c) * value_at(v.value, r, c);
      }
      EXPECT_NEAR(along, 0, 1e-12);
    }
  }
}

TEST(WeightNorm, ZeroVectorsGiveZeros) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const WeightAxis axis : {WeightAxis::rows, WeightAxis::columns}) {
      OwnedTensor values = normals({4, 4}, dtype, 6);
      for (Index i = 0; i < 4; ++i) {
        set_value(
            values.tensor, axis == WeightAxis::rows ? 2 : i, axis == WeightAxis::rows ? i : 2, 0);
      }
      TestLeaf v(std::move(values));
      TestLeaf g({4}, dtype, 7);
      const OwnedTensor seed = normals({4, 4}, dtype, 8);
      const OwnedTensor w =
          run_op([&](Tape& tape) { return weight_norm(tape.watch(v), tape.watch(g), {axis}); },
                 seed.tensor);
      EXPECT_EQ(value_at(g.grad, 0, 2), 0);
      for (Index i = 0; i < 4; ++i) {
        const Index r = axis == WeightAxis::rows ? 2 : i;
        const Index c = axis == WeightAxis::rows ? i : 2;
        EXPECT_EQ(value_at(w.tensor, r, c), 0);
        EXPECT_EQ(value_at(v.grad, r, c), 0);
      }
    }
  }
}

TEST(WeightNorm, ColumnsAreRowsOfTheTranspose) {
  const OwnedTensor v = normals({5, 80}, DType::f64, 9);
  const OwnedTensor turned =
      tabulated({80, 5}, DType::f64, [&](Index r, Index c) { return value_at(v.tensor, c, r); });
  const OwnedTensor columns = run_op(
      [&](Tape& tape) { return weight_norm(tape.constant(v.tensor), {}, {WeightAxis::columns}); });
  const OwnedTensor rows =
      run_op([&](Tape& tape) { return weight_norm(tape.constant(turned.tensor), {}); });
  for_each_place({5, 80}, [&](Index r, Index c) {
    EXPECT_EQ(value_at(columns.tensor, r, c), value_at(rows.tensor, c, r));
  });
}

TEST(WeightNorm, SaysWhatItWanted) {
  Tape tape;
  const OwnedTensor v = normals({4, 6}, DType::f32, 10);
  const OwnedTensor six = normals({6}, DType::f32, 11);
  const OwnedTensor cube = normals({2, 3, 4}, DType::f32, 12);
  const OwnedTensor f64 = normals({4}, DType::f64, 13);
  const Var m = tape.constant(v.tensor);
  EXPECT_TRUE(throws<RequestError>([&] { weight_norm(m, tape.constant(six.tensor)); },
                                   {"weight_norm", "g ", "(4)", "(6)"}));
  EXPECT_TRUE(throws<RequestError>([&] { weight_norm(m, tape.constant(f64.tensor)); },
                                   {"weight_norm", "g ", "f32", "f64"}));
  EXPECT_TRUE(throws<RequestError>([&] { weight_norm(tape.constant(cube.tensor), {}); },
                                   {"weight_norm", "matrix", "(2, 3, 4)"}));
}

}  // namespace
}  // namespace norma::test
