// What a comparison with limits cannot see: masks on the GPU are those of the CPU, bit for bit.
#include <string>

#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/base/error.h"
#include "norma/device/device.h"
#include "norma/ops/dropout.h"
#include "norma/tensor/plain.h"
#include "tests/support/expect.h"
#include "tests/support/needs_gpu.h"
#include "tests/support/values.h"

namespace norma {
namespace {

constexpr Device kGpu{DeviceKind::cuda};

class GpuDropout : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override { NORMA_NEEDS_GPU(); }
};

/// Ones in `cols` columns of a wider tensor, from column `begin` on, of (4, 9, …).
struct Ones {
  Ones(Index cols, Index begin, Index padding, DType dtype, Device device)
      : all({4, 9, begin + cols + padding}, dtype, device), part(all.tensor.columns(begin, cols)) {
    fill(all.tensor, 1);
  }
  OwnedTensor all;
  Tensor part;
};

template <class Drop>
OwnedTensor mask(Drop drop, const Ones& ones, Device device, const DropSpec& spec) {
  Tape tape(device);
  const Var y = drop(tape.constant(ones.part), spec);
  OwnedTensor home(y.shape(), DType::f32);
  convert(y.value(), home.tensor);
  return home;
}

template <class Drop>
void expect_same_mask(Drop drop, DType dtype, Index cols, Index begin, Index padding) {
  const DropSpec spec{
      .rate = 0.3, .key = {.seed = 0x123456789ULL, .stream = 77}, .first_sample = 3};
  const Ones here(cols, begin, padding, DType::f32, {});
  const Ones there(cols, begin, padding, dtype, kGpu);
  const OwnedTensor want = mask(drop, here, {}, spec);
  const OwnedTensor got = mask(drop, there, kGpu, spec);
  test::for_each_place(want.tensor.shape, [&](Index r, Index c) {
    ASSERT_EQ(value_at(got.tensor, r, c) != 0, value_at(want.tensor, r, c) != 0)
        << "row " << r << ", column " << c << " of " << cols << " from " << begin;
  });
}

// Widths around a pack, a group of 64 columns and what a block of threads covers; rows that begin
// on a pack and rows that do not.
TEST_P(GpuDropout, MasksAreThoseOfTheCpu) {
  for (const Index cols : {1, 5, 8, 16, 33, 56, 64, 72, 96, 128, 200, 256, 264, 1000}) {
    expect_same_mask(dropout, GetParam(), cols, 0, 0);
    expect_same_mask(dropout, GetParam(), cols, 8, 16);
    expect_same_mask(dropout, GetParam(), cols, 3, 2);
  }
}

TEST_P(GpuDropout, SamplesAreThoseOfTheCpu) {
  for (const Index cols : {1, 5, 64, 264, 1000}) {
    expect_same_mask(drop_path, GetParam(), cols, 0, 0);
    expect_same_mask(drop_path, GetParam(), cols, 3, 2);
  }
}

TEST_P(GpuDropout, AStepThatLiesElsewhereIsRefused) {
  const OwnedTensor x({2, 3}, GetParam(), kGpu);
  const OwnedTensor step({1}, DType::i32);
  Tape tape(kGpu);
  const Var v = tape.constant(x.tensor);
  EXPECT_TRUE(test::throws<RequestError>([&] { dropout(v, {.rate = 0.5, .step = step.tensor}); },
                                         {"dropout", "x lies on cuda", "step on cpu"}));
}

INSTANTIATE_TEST_SUITE_P(Types,
                         GpuDropout,
                         testing::Values(DType::f32, DType::bf16),
                         [](const auto& type) { return std::string(name_of(type.param)); });

}  // namespace
}  // namespace norma
