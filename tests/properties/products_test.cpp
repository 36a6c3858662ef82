// Properties 3 and 4: which changes of W a norm of W·x forgets.
#include <gtest/gtest.h>

#include "norma/ops/batch_norm.h"
#include "norma/ops/linear.h"
#include "norma/tensor/plain.h"
#include "tests/properties/plain_norms.h"
#include "tests/properties/tiny_gpt.h"

namespace norma::test {
namespace {

/// N(W x) for a norm of the product.
struct Layer {
  OwnedTensor w = normals({6, 8}, DType::f64, 2);
  OwnedTensor x = normals({4, 5, 8}, DType::f64, 1);  // 20 inputs, for batch statistics
  OwnedTensor operator()(const Op& norm_of) const {
    return run_op([&](Tape& tape) {
      return norm_of(linear(tape.constant(x.tensor), tape.constant(w.tensor)));
    });
  }
};

Var batch(Var v) {
  return batch_norm(v, {}, {}, {}, {}, {.statistics = BatchStatistics::all, .eps = kNoEps});
}

TEST(Property, P03_TheScaleOfAMatrixAndOfOneRow) {
  const Layer plain;
  for (const Op& op : {Op(plain_layer), Op(plain_rms), Op(plain_l2), Op(batch)}) {
    Layer whole;
    scale(whole.w.tensor, 7.3);
    EXPECT_LE(distance(whole(op).tensor, plain(op).tensor), 1e-10);
  }
  Layer row;
  scale(Tensor(row.w.tensor.data, {1, 8}, DType::f64), 3);
  EXPECT_GT(distance(row(plain_layer).tensor, plain(plain_layer).tensor), 1e-2);
  EXPECT_GT(distance(row(plain_rms).tensor, plain(plain_rms).tensor), 1e-2);
  EXPECT_LE(distance(row(batch).tensor, plain(batch).tensor), 1e-10);
}

/// w + shift(row, column)
template <class F>
void shift_matrix(const Tensor& w, F&& shift) {
  for_each_place(w.shape,
                 [&](Index r, Index c) { set_value(w, r, c, value_at(w, r, c) + shift(r, c)); });
}

TEST(Property, P04_TheSameVectorAddedToAllRowsOfW) {
  const OwnedTensor added = normals({8}, DType::f64, 3);
  const Layer plain;
  Layer moved_rows;
  shift_matrix(moved_rows.w.tensor, [&](Index, Index c) { return value_at(added.tensor, 0, c); });
  EXPECT_LE(distance(moved_rows(plain_layer).tensor, plain(plain_layer).tensor), 1e-10);
  EXPECT_GT(distance(moved_rows(plain_rms).tensor, plain(plain_rms).tensor), 1e-2);
}

TEST(Property, P04_AConstantAddedToEachRowOfW) {
  const OwnedTensor added = normals({6}, DType::f64, 4);
  Layer plain;
  Layer moved_rows;
  shift_matrix(moved_rows.w.tensor, [&](Index r, Index) { return value_at(added.tensor, 0, r); });
  EXPECT_GT(distance(moved_rows(plain_layer).tensor, plain(plain_layer).tensor), 1e-2);
  EXPECT_GT(distance(moved_rows(plain_rms).tensor, plain(plain_rms).tensor), 1e-2);
  // Inputs whose sum is 0 do not see the constant: W x itself is the same, under any norm.
  center_rows(plain.x.tensor);
  center_rows(moved_rows.x.tensor);
  EXPECT_LE(distance(moved_rows(plain_layer).tensor, plain(plain_layer).tensor), 1e-10);
  EXPECT_LE(distance(moved_rows(plain_rms).tensor, plain(plain_rms).tensor), 1e-10);
}

TEST(Property, P04_AShiftOfTheInput) {
  Layer plain;
  Layer moved_input;
  moved_input.x = shifted(plain.x.tensor, 0.8);
  EXPECT_GT(distance(moved_input(plain_layer).tensor, plain(plain_layer).tensor), 1e-2);
  // W·1 = 2·1: the shift reaches all outputs alike.
  for (Layer* layer : {&plain, &moved_input}) {
    center_rows(layer->w.tensor);
    shift_matrix(layer->w.tensor, [](Index, Index) { return 2.0 / 8; });
  }
  EXPECT_LE(distance(moved_input(plain_layer).tensor, plain(plain_layer).tensor), 1e-10);
  EXPECT_GT(distance(moved_input(plain_rms).tensor, plain(plain_rms).tensor), 1e-2);
}

}  // namespace
}  // namespace norma::test
