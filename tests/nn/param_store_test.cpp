#include "norma/nn/param_store.h"

#include <cmath>
#include <cstdint>

#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/base/error.h"
#include "norma/ops/linear.h"
#include "norma/tensor/plain.h"
#include "tests/support/expect.h"
#include "tests/support/toy_ops.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::throws;

/// A gain, fused q, k, v and a bias.
class ParamStoreTest : public testing::Test {
 protected:
  explicit ParamStoreTest(DType dtype = DType::f64) {
    gain_ = store_.add({"gain", {5}, {.decay = false}});
    qkv_ =
        store_.add_fused({{"q", {4, 5}, {}}, {"k", {2, 5}, {}}, {"v", {2, 5}, {.lr_scale = 0.5}}});
    bias_ = store_.add({"bias", {3}, {.decay = false}});
    store_.allocate(dtype);
  }
  /// loss = Σ along · (x·qkvᵀ), whose gradient in qkv is alongᵀ·x.
  void backward(std::uint64_t batch) {
    tape_.reset();
    const OwnedTensor x = test::normals({6, 5}, DType::f64, 10 + batch);
    const OwnedTensor along = test::normals({6, 8}, DType::f64, 20 + batch);
    const Var y = linear(tape_.constant(x.tensor), tape_.watch(store_.leaf(qkv_)));
    tape_.backward(test::project(y, along.tensor));
  }
  /// The gradient of qkv for one batch alone.
  OwnedTensor fresh_grad(std::uint64_t batch) {
    store_.begin_accumulation();
    backward(batch);
    return test::copy_of(store_.leaf(qkv_).grad);
  }

  ParamStore store_;
  Tape tape_;
  std::size_t gain_ = 0;
  std::size_t qkv_ = 0;
  std::size_t bias_ = 0;
};

TEST_F(ParamStoreTest, FusedPartsAreRowsOfOneMatrix) {
  const Leaf& leaf = store_.leaf(qkv_);
  EXPECT_EQ(leaf.value.shape, (Shape{8, 5}));
  EXPECT_EQ(leaf.grad.shape, (Shape{8, 5}));
  const Index first_row[] = {0, 4, 6};
  const char* names[] = {"q", "k", "v"};
  for (int i = 0; i < 3; ++i) {
    const Param& part = store_.find(names[i]);
    EXPECT_EQ(part.leaf, qkv_);
    fill(store_.value(part), 10 + i);
    fill(store_.grad(part), 20 + i);
    for (Index r = 0; r < part.shape.rows(); ++r) {
      EXPECT_EQ(value_at(leaf.value, first_row[i] + r, 4), 10 + i);
      EXPECT_EQ(value_at(leaf.grad, first_row[i] + r, 0), 20 + i);
    }
  }
  EXPECT_EQ(store_.find("k").shape, (Shape{2, 5}));
  EXPECT_EQ(store_.find("v").tags.lr_scale, 0.5);
  EXPECT_FALSE(store_.find("bias").tags.decay);
}

TEST_F(ParamStoreTest, LeavesStartOnCacheLinesAndDoNotOverlap) {
  for (const std::size_t handle : {gain_, qkv_, bias_}) {
    const Leaf& leaf = store_.leaf(handle);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(leaf.value.data) % kAlignment, 0U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(leaf.grad.data) % kAlignment, 0U);
  }
  Index end = 0;
  for (const Param& param : store_.params()) {
    EXPECT_GE(param.offset, end) << param.name;
    end = param.offset + param.count();
  }
  EXPECT_LE(end, store_.values().count());
}

TEST_F(ParamStoreTest, AllValuesLieInOneSpan) {
  for (const Param& param : store_.params()) fill(store_.value(param), 1);
  double sum = 0;
  for (const double x : store_.values().elements<const double>()) sum += x;
  EXPECT_EQ(sum, static_cast<double>(store_.count()));  // gaps are zero
  EXPECT_EQ(store_.grads().count(), store_.values().count());
}

TEST_F(ParamStoreTest, CountHasNoGaps) {
  EXPECT_EQ(store_.count(), 5 + 40 + 3);
  EXPECT_GT(store_.values().count(), store_.count());
}

TEST_F(ParamStoreTest, StartsAtZero) {
  EXPECT_EQ(test::dot(store_.values(), store_.values()), 0);
  EXPECT_EQ(test::dot(store_.grads(), store_.grads()), 0);
}

TEST_F(ParamStoreTest, FindSuggestsTheNearest) {
  EXPECT_EQ(&store_.find("gain"), &store_.params()[0]);
  EXPECT_TRUE(throws<RequestError>([&] { store_.find("bia"); },
                                   {"no parameter bia", "Did you mean bias?"}));
  EXPECT_TRUE(throws<RequestError>([&] { store_.find("blocks.0.attention.weight"); },
                                   {"no parameter blocks.0.attention.weight."}));
}

TEST_F(ParamStoreTest, TheNextBackwardReplacesThenAdds) {
  const OwnedTensor one = fresh_grad(1);
  const OwnedTensor two = fresh_grad(2);
  fill(store_.grads(), 1e6);  // left over from the last step
  store_.begin_accumulation();
  backward(1);
  EXPECT_TRUE(test::same_bits(store_.leaf(qkv_).grad, one.tensor));
  backward(2);
  store_.finish_accumulation();
  add(two.tensor, one.tensor);
  EXPECT_TRUE(test::close(store_.leaf(qkv_).grad, one.tensor, 1e-13));
}

TEST_F(ParamStoreTest, WhatNothingReachedBecomesZero) {
  fill(store_.grads(), 1e6);
  store_.begin_accumulation();
  backward(1);
  store_.finish_accumulation();
  for (const char* name : {"gain", "bias"}) {
    EXPECT_EQ(test::dot(store_.grad(store_.find(name)), store_.grad(store_.find(name))), 0) << name;
  }
}

TEST_F(ParamStoreTest, FreezingOnePartZeroesItsGradientOnly) {
  const OwnedTensor free = fresh_grad(1);
  store_.freeze("k");
  EXPECT_TRUE(store_.leaf(qkv_).needs_grad);
  EXPECT_TRUE(store_.find("k").frozen);
  EXPECT_FALSE(store_.find("q").frozen);
  store_.begin_accumulation();
  backward(1);
  store_.finish_accumulation();
  EXPECT_TRUE(test::matches(store_.leaf(qkv_).grad, [&](Index r, Index c) {
    return r >= 4 && r < 6 ? 0 : value_at(free.tensor, r, c);
  }));
}

TEST_F(ParamStoreTest, FreezingAllPartsFreezesTheMatrixAndCanBeUndone) {
  for (const char* name : {"q", "k", "v"}) store_.freeze(name);
  EXPECT_FALSE(store_.leaf(qkv_).needs_grad);
  EXPECT_TRUE(store_.leaf(gain_).needs_grad);
  store_.freeze("v", false);
  EXPECT_TRUE(store_.leaf(qkv_).needs_grad);
  EXPECT_TRUE(throws<RequestError>([&] { store_.freeze("w"); }, {"no parameter w"}));
}

TEST(ParamStore, NamesAreUnique) {
  ParamStore store;
  store.add({"w", {2, 3}, {}});
  EXPECT_TRUE(throws<RequestError>([&] { store.add({"w", {4}, {}}); }, {"two parameters", "w"}));
  EXPECT_THROW(store.add_fused({{"a", {2, 3}, {}}, {"a", {2, 3}, {}}}), RequestError);
}

TEST(ParamStore, FusedPartsNeedTheSameColumns) {
  ParamStore store;
  EXPECT_TRUE(throws<RequestError>(
      [&] {
        store.add_fused({{"q", {4, 5}, {}}, {"k", {4, 6}, {}}});
      },
      {"k", "(rows, 5)", "(4, 6)"}));
  EXPECT_THROW(store.add_fused({{"u", {4}, {}}, {"v", {4, 1}, {}}}), RequestError);
}

TEST(ParamStore, VectorsAreJoinedEndToEnd) {
  ParamStore store;
  const std::size_t joined = store.add_fused({{"u", {3}, {}}, {"v", {2}, {}}});
  store.allocate(DType::f32);
  EXPECT_EQ(store.leaf(joined).value.shape, (Shape{5}));
  set_value(store.value(store.find("v")), 0, 1, 7);
  EXPECT_EQ(value_at(store.leaf(joined).value, 0, 4), 7);
}

TEST(ParamStore, ARefusedDeclarationLeavesNothingBehind) {
  ParamStore store;
  EXPECT_THROW(store.add_fused({{"q", {4, 5}, {}}, {"k", {4, 6}, {}}}), RequestError);
  EXPECT_TRUE(store.params().empty());
  EXPECT_NO_THROW(store.add_fused({{"q", {4, 5}, {}}, {"k", {4, 5}, {}}}));
}

TEST(ParamStore, DeclareThenAllocateThenUse) {
  ParamStore store;
  EXPECT_TRUE(throws<Error>([&] { store.allocate(DType::f32); }, {"no parameters"}));
  store.add({"w", {2, 3}, {}});
  EXPECT_THROW(store.freeze("w"), Error) << "there is no leaf to freeze yet";
  store.allocate(DType::f32);
  EXPECT_TRUE(throws<Error>([&] { store.add({"late", {2}, {}}); }, {"before they are allocated"}));
}

TEST(ParamStore, MoreThanTheMachineHasIsRefused) {
  ParamStore store;
  store.add({"huge", {Index{1} << 24, Index{1} << 24}, {}});
  EXPECT_TRUE(throws<MemoryError>([&] { store.allocate(DType::f32); }, {"wanted", "TiB"}));
}

ParamStore mixed_store(Masters masters) {
  ParamStore store;
  store.add({"gain", {5}, {.kind = ParamClass::gain}, 1});
  store.add_fused({{"q", {3, 8}, {}}, {"k", {2, 8}, {}}});
  store.allocate(DType::bf16, {}, masters);
  test::fill_normal(store.values(), 1);
  store.refresh_copies();
  return store;
}

TEST(ParamStore, InBf16MatricesAreCopiesOfMastersAndVectorsAreNot) {
  ParamStore store = mixed_store(Masters::f32);
  EXPECT_EQ(store.dtype(), DType::bf16);
  EXPECT_EQ(store.values().dtype, DType::f32);
  EXPECT_EQ(store.grads().dtype, DType::f32);
  const Leaf& gain = store.leaf(0);
  EXPECT_EQ(gain.value.data, store.value(store.find("gain")).data);
  EXPECT_EQ(gain.value.dtype, DType::f32);
  const Leaf& fused = store.leaf(1);
  EXPECT_EQ(fused.value.dtype, DType::bf16);
  EXPECT_EQ(fused.value.shape, (Shape{5, 8}));
  EXPECT_EQ(fused.grad.dtype, DType::f32);
  EXPECT_EQ(fused.grad.data, store.grad(store.find("q")).data);
  const Tensor k = store.value(store.find("k"));
  double lost = 0;
  for (Index c = 0; c < 8; ++c) {
    const auto master = static_cast<float>(value_at(k, 1, c));
    EXPECT_EQ(value_at(fused.value, 4, c), static_cast<double>(to_float(to_bf16(master))));
    lost += std::abs(value_at(fused.value, 4, c) - static_cast<double>(master));
  }
  EXPECT_GT(lost, 0) << "the masters keep more digits";
}

TEST(ParamStore, WithoutMastersMatricesHoldWhatBf16Can) {
  ParamStore store = mixed_store(Masters::none);
  const Tensor q = store.value(store.find("q"));
  for (Index c = 0; c < 8; ++c) EXPECT_EQ(value_at(q, 2, c), value_at(store.leaf(1).value, 2, c));
  set_value(q, 0, 0, 1.0001);
  set_value(store.value(store.find("gain")), 0, 0, 1.0001);
  store.finish_step();
  EXPECT_EQ(value_at(q, 0, 0), 1);
  EXPECT_EQ(value_at(store.leaf(1).value, 0, 0), 1);
  EXPECT_EQ(value_at(store.value(store.find("gain")), 0, 0), static_cast<double>(1.0001f));
}

}  // namespace
}  // namespace norma
