// A norm that is made again beside its gradient: the bits of one that was kept, and of everything
// that comes of it.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/base/text.h"
#include "norma/device/device.h"
#include "norma/kernels/norm_again.h"
#include "norma/ops/add_norm.h"
#include "norma/ops/dispatch.h"
#include "norma/ops/layer_norm.h"
#include "norma/ops/linear.h"
#include "norma/ops/rms_norm.h"
#include "norma/tensor/plain.h"
#include "tests/support/expect.h"
#include "tests/support/needs_gpu.h"
#include "tests/support/values.h"

namespace norma {
namespace {

constexpr Device kGpu{DeviceKind::cuda};

/// Eighths around `middle`, which every type holds.
double eighths(Index row, Index col, Index stream, double middle) {
  const auto mixed = static_cast<std::uint64_t>(row * 7919 + col * 104729 + stream * 1299709);
  return middle + static_cast<double>((mixed * 2654435761U >> 7) % 33) / 8 - 2;
}
OwnedTensor filled(Shape shape, DType dtype, Index stream, double middle = 0) {
  return test::made(
      shape, dtype, kGpu, [=](Index r, Index c) { return eighths(r, c, stream, middle); });
}

struct Norm {
  const char* name;
  bool centred;
  bool added;  // behind an addition
  bool branch;
};
constexpr Norm kNorms[] = {{"rms_norm", false, false, false},
                           {"layer_norm", true, false, false},
                           {"add_norm", false, true, false},
                           {"add_norm, centred", true, true, false},
                           {"norm_add_norm", false, true, true},
                           {"norm_add_norm, centred", true, true, true}};

/// The gradients of a norm and of the weight behind it.
std::vector<OwnedTensor> gradients(
    const Norm& norm, Index rows, Index cols, DType dtype, bool forget) {
  const DType vectors = wide(dtype);
  test::TestLeaf x(filled({rows, cols}, dtype, 1, 0.5));
  test::TestLeaf b(filled({rows, cols}, dtype, 2));
  test::TestLeaf gain(filled({cols}, vectors, 3, 1));
  test::TestLeaf bias(filled({cols}, vectors, 4));
  test::TestLeaf branch_gain(filled({cols}, vectors, 5, 1));
  test::TestLeaf weight(filled({24, cols}, dtype, 6), vectors);
  const OwnedTensor seed = filled({rows, 24}, dtype, 7);

  Tape tape(kGpu);
  tape.set_remaking(Remaking::norms);
  const Var in = tape.watch(x);
  const Var shift = norm.centred ? tape.watch(bias) : Var{};
  const AddNormSpec spec{.norm = norm.centred ? AddNormKind::layer : AddNormKind::rms};
  Var y;
  if (norm.branch) {
    y = norm_add_norm(
            in, tape.watch(b), {.gain = tape.watch(branch_gain)}, tape.watch(gain), shift, spec)
            .normed;
  } else if (norm.added) {
    y = add_norm(in, tape.watch(b), tape.watch(gain), shift, spec).normed;
  } else if (norm.centred) {
    y = layer_norm(in, tape.watch(gain), shift);
  } else {
    y = rms_norm(in, tape.watch(gain));
  }
  const Var out = linear(y, tape.watch(weight), {});
  if (forget) tape.forget(y);
  tape.backward({&out, 1}, {&seed.tensor, 1}, {});
  std::vector<OwnedTensor> grads;
  for (const test::TestLeaf* each : {&x, &b, &gain, &bias, &branch_gain, &weight}) {
    if (!each->fresh) grads.push_back(test::copy_of(each->grad));
  }
  return grads;
}

class GpuNormAgain : public testing::Test {
 protected:
  void SetUp() override { NORMA_NEEDS_GPU(); }
};

TEST_F(GpuNormAgain, HasTheBitsOfOneThatWasKept) {
  for (const Norm& norm : kNorms) {
    for (const DType dtype : {DType::bf16, DType::f32}) {
      // Every team of threads a row may have, and rows that are no whole packs.
      for (const Index cols : {64, 200, 257, 512, 768, 1024, 1280, 2048, 4096}) {
        for (const Index rows : {1, 1500}) {
          const std::vector<OwnedTensor> want = gradients(norm, rows, cols, dtype, false);
          const std::vector<OwnedTensor> got = gradients(norm, rows, cols, dtype, true);
          ASSERT_EQ(got.size(), want.size());
          for (std::size_t i = 0; i < want.size(); ++i) {
            EXPECT_TRUE(test::same_bits(got[i].tensor, want[i].tensor))
                << say(norm.name, ", ", rows, " rows of ", cols, ", gradient ", i);
          }
        }
      }
    }
  }
}

TEST_F(GpuNormAgain, IsMadeByTheKernelOfTheGradient) {
  constexpr Index kRows = 300;
  constexpr Index kCols = 1280;
  const OwnedTensor x = filled({kRows, kCols}, DType::bf16, 1);
  const OwnedTensor dy = filled({kRows, kCols}, DType::bf16, 2);
  const OwnedTensor gain = filled({kCols}, DType::f32, 3);
  const OwnedTensor rstd({kRows}, DType::f32, kGpu);
  const OwnedTensor y({kRows, kCols}, DType::bf16, kGpu);
  const OwnedTensor again = filled({kRows, kCols}, DType::bf16, 4);
  const OwnedTensor dx({kRows, kCols}, DType::bf16, kGpu);
  if constexpr (device::kBuiltWithCuda) {
    kernels::run(kernels::Cuda{},
                 kernels::RmsNormForward<Bf16>{.x = rows<const Bf16>(x.tensor),
                                               .gain = elements<const float>(gain.tensor),
                                               .y = rows<Bf16>(y.tensor),
                                               .rstd = elements<float>(rstd.tensor),
                                               .group = kCols,
                                               .gain_per_column = false,
                                               .gain_offset = 0,
                                               .eps = 1e-6});
    const kernels::RmsNormBackward<Bf16> gradient{.x = rows<const Bf16>(x.tensor),
                                                  .gain = elements<const float>(gain.tensor),
                                                  .rstd = elements<const float>(rstd.tensor),
                                                  .dy = rows<const Bf16>(dy.tensor),
                                                  .dx = rows<Bf16>(dx.tensor),
                                                  .dx_into = Into::set,
                                                  .dgain = nullptr,
                                                  .dgain_into = Into::set,
                                                  .partials = nullptr,
                                                  .group = kCols,
                                                  .gain_per_column = false,
                                                  .gain_offset = 0};
    EXPECT_TRUE(kernels::run_fused(kernels::Cuda{},
                                   kernels::NormAgain<kernels::RmsNormBackward, Bf16>{
                                       gradient, nullptr, rows<Bf16>(again.tensor)}));
  }
  EXPECT_TRUE(test::same_bits(test::copy_of(again.tensor).tensor, test::copy_of(y.tensor).tensor));
}

}  // namespace
}  // namespace norma
