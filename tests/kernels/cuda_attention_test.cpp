// Attention's gradient on a GPU: where one kernel may make all of it, beside that of two kernels;
// and the same bits whatever lies where it writes.
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "norma/kernels/attention.h"
#include "norma/tensor/plain.h"
#include "tests/support/expect.h"
#include "tests/support/gpu_attention.h"
#include "tests/support/needs_gpu.h"

namespace norma::kernels {
namespace {

using test::kGpu;

struct Case {
  Index batch, tokens, heads;
  bool causal;
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.batch << "x" << c.tokens << "x" << c.heads << (c.causal ? " causal" : " full");
}

class GpuAttention : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    NORMA_NEEDS_GPU();
    if (!device::runs_hopper_kernels()) GTEST_SKIP() << "this GPU has no such kernel";
  }
};

TEST_P(GpuAttention, OneKernelMakesTheGradientOfTwo) {
  const Case& c = GetParam();
  const test::GpuAttention attention(
      test::plain_shape(c.batch, c.tokens, c.heads, c.heads, kJointWidth, c.causal));
  ASSERT_TRUE(fits_joint_gradient(attention.shape));
  const AttentionScratch at = scratch_on_gpu(attention.shape, true);
  const OwnedTensor scratch({at.all}, DType::f32, kGpu);
  const auto gradient = [&](bool joint) { return attention.gradient(scratch, joint, 0.5); };
  const OwnedTensor whole = gradient(true);
  const OwnedTensor again = gradient(true);
  EXPECT_EQ(std::memcmp(whole.tensor.data, again.tensor.data, whole.tensor.bytes()), 0);

  // It was that kernel: every tile of keys that a query sees has had its turn.
  const OwnedTensor left = host_copy(scratch.tensor);
  for (Index i = 0; i < at.turns; ++i) {
    unsigned turns = 0;
    std::memcpy(&turns, left.tensor.as<float>() + at.turns_at + i, sizeof turns);
    const Index tiles = c.tokens / kJointTile;
    ASSERT_EQ(turns, static_cast<unsigned>(c.causal ? i / 2 % tiles + 1 : tiles)) << i;
  }

  const OwnedTensor two = gradient(false);
  for (Index i = 0; i < 4; ++i) {  // dq, dk, dv, and the columns behind them
    double gap = 0;
    double all = 0;
    const Index begin = attention.begin(i);
    for (Index r = 0; r < attention.rows(); ++r) {
      for (Index col = begin; col < begin + attention.width(i); ++col) {
        const double wanted = value_at(two.tensor, r, col);
        gap += std::pow(value_at(whole.tensor, r, col) - wanted, 2);
        all += std::pow(wanted, 2);
      }
    }
    // Both round probabilities and results, at other places; 1 % would be a mistake.
    constexpr double kMostApart = 0.006;
    EXPECT_LE(std::sqrt(gap), i < 3 ? kMostApart * std::sqrt(all) : 0) << "part " << i;
  }
}
INSTANTIATE_TEST_SUITE_P(Shapes,
                         GpuAttention,
                         testing::Values(Case{1, 128, 1, true},
                                         Case{2, 256, 3, false},
                                         // tiles of one block after each other
                                         Case{40, 128, 10, true},
                                         Case{9, 384, 11, false},
                                         // several tiles for each multiprocessor
                                         Case{16, 512, 12, true},
                                         Case{2, 2048, 3, true},
                                         // many tiles of one head at work
                                         Case{1, 5120, 1, true},
                                         Case{1, 5120, 1, false}));

/// Heads of any width, keys' heads shared by queries' heads.
struct WidthCase {
  Index tokens, heads, kv_heads, width;
  bool causal;
};
std::ostream& operator<<(std::ostream& out, const WidthCase& c) {
  return out << c.tokens << "x" << c.heads << "x" << c.kv_heads << "x" << c.width
             << (c.causal ? " causal" : " full");
}

class GpuAttentionWidths : public testing::TestWithParam<WidthCase> {
 protected:
  void SetUp() override { NORMA_NEEDS_GPU(); }
};

TEST_P(GpuAttentionWidths, GradientDoesNotDependOnWhatLiesThere) {
  const WidthCase& c = GetParam();
  const test::GpuAttention attention(
      test::plain_shape(3, c.tokens, c.heads, c.kv_heads, c.width, c.causal));
  const auto gradient = [&](double scratch_before, double before) {
    const OwnedTensor scratch({scratch_on_gpu(attention.shape, false).all}, DType::f32, kGpu);
    fill(scratch.tensor, scratch_before);
    return attention.gradient(scratch, false, before);
  };
  const OwnedTensor one = gradient(std::nan(""), std::nan(""));
  const OwnedTensor other = gradient(-3, 7);
  for (Index i = 0; i < 3; ++i) {
    const Index begin = attention.begin(i);
    EXPECT_TRUE(test::same_bits(other.tensor.columns(begin, attention.width(i)),
                                one.tensor.columns(begin, attention.width(i))))
        << "part " << i;
  }
}
INSTANTIATE_TEST_SUITE_P(Shapes,
                         GpuAttentionWidths,
                         testing::Values(WidthCase{12, 2, 2, 8, true},
                                         WidthCase{12, 2, 2, 8, false},
                                         WidthCase{130, 4, 2, 32, true},
                                         WidthCase{300, 4, 1, 64, false},
                                         WidthCase{300, 2, 1, 96, true},
                                         WidthCase{513, 4, 2, 128, true},
                                         WidthCase{65, 2, 1, 136, true},
                                         WidthCase{65, 2, 2, 7, false}));

}  // namespace
}  // namespace norma::kernels
