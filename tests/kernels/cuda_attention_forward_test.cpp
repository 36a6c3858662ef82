// Attention itself on a GPU: the kernels for Hopper and cuDNN's beside those for every rule.
#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "norma/device/choices.h"
#include "norma/kernels/cuda/attention_choice.h"
#include "norma/kernels/cuda/attention_mma.h"
#include "norma/kernels/cuda/attention_wgmma.h"
#include "norma/kernels/cuda/cudnn_attention.h"
#include "tests/support/gpu_attention.h"
#include "tests/support/needs_gpu.h"

namespace norma::kernels {
namespace {

using test::GpuAttention;
using test::plain_shape;

struct Case {
  Index batch, tokens, heads, kv_heads, width;
  bool causal;
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.batch << "x" << c.tokens << "x" << c.heads << "x" << c.kv_heads << "x" << c.width
             << (c.causal ? " causal" : " full");
}
AttentionShape shape_of(const Case& c) {
  return plain_shape(c.batch, c.tokens, c.heads, c.kv_heads, c.width, c.causal);
}

struct Result {
  OwnedTensor o, lse;
};
/// What a way makes of it, over numbers that were there before.
template <class Way>
Result result_of(const GpuAttention& attention, const Way& way) {
  fill(attention.o(), 7);
  fill(attention.lse(), std::nan(""));
  if constexpr (device::kBuiltWithCuda) way(attention.forward());
  return {host_copy(attention.o()), host_copy(attention.lse())};
}

/// |a - b| / |b| over some columns.
double gap_of(const Tensor& a, const Tensor& b, Index columns) {
  double gap = 0;
  double all = 0;
  for (Index r = 0; r < b.shape.rows(); ++r) {
    for (Index c = 0; c < columns; ++c) {
      gap += std::pow(value_at(a, r, c) - value_at(b, r, c), 2);
      all += std::pow(value_at(b, r, c), 2);
    }
  }
  return std::sqrt(gap / all);
}

void expect_same(const GpuAttention& attention, const Result& got, const Result& want) {
  // Both round probabilities and results, at other places; 1 % would be a mistake.
  EXPECT_LE(gap_of(got.o.tensor, want.o.tensor, attention.width(0)), 0.006);
  for (Index r = 0; r < attention.rows(); ++r) {
    for (Index c = 0; c < GpuAttention::kBehind; ++c) {
      ASSERT_EQ(value_at(got.o.tensor, r, attention.width(0) + c), 7) << "behind row " << r;
    }
  }
  for (Index i = 0; i < got.lse.tensor.count(); ++i) {
    ASSERT_NEAR(got.lse.tensor.as<float>()[i], want.lse.tensor.as<float>()[i], 1e-4) << i;
  }
}

class GpuAttentionForward : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    NORMA_NEEDS_GPU();
    if (!device::runs_hopper_kernels()) GTEST_SKIP() << "this GPU has no such kernel";
  }
};

TEST_P(GpuAttentionForward, HoppersIsThatForEveryRule) {
  const GpuAttention attention(shape_of(GetParam()));
  const auto own = [](const auto& a) { ASSERT_TRUE(wgmma_attention(a)); };
  const auto every = [](const auto& a) { mma_attention(a); };
  // Factors of both signs, and none: then all keys count the same.
  for (const double sign : {1.0, -1.0, 0.0}) {
    scale(attention.factors(), sign);
    const Result got = result_of(attention, own);
    expect_same(attention, got, result_of(attention, every));
    const Result again = result_of(attention, own);
    EXPECT_TRUE(test::same_bits(again.o.tensor, got.o.tensor));
    EXPECT_TRUE(test::same_bits(again.lse.tensor, got.lse.tensor));
  }
}
INSTANTIATE_TEST_SUITE_P(Shapes,
                         GpuAttentionForward,
                         testing::Values(Case{1, 1, 1, 1, 64, true},
                                         Case{3, 12, 2, 2, 8, true},
                                         Case{3, 12, 2, 2, 8, false},
                                         Case{2, 65, 2, 1, 64, true},
                                         Case{2, 127, 3, 3, 64, false},
                                         Case{2, 128, 2, 2, 64, true},
                                         Case{1, 130, 4, 2, 32, true},
                                         Case{2, 300, 4, 1, 64, false},
                                         Case{2, 300, 2, 1, 96, true},
                                         Case{3, 513, 4, 2, 128, true},
                                         Case{3, 513, 4, 2, 128, false},
                                         // several tiles for each multiprocessor
                                         Case{40, 300, 8, 4, 32, true},
                                         Case{40, 300, 8, 4, 64, false},
                                         Case{40, 300, 8, 4, 96, true},
                                         Case{40, 300, 8, 4, 128, false},
                                         Case{40, 512, 12, 12, 64, true},
                                         Case{30, 384, 10, 5, 128, true},
                                         Case{1, 4096, 3, 3, 64, true}));

TEST(GpuAttentionWays, HoppersHasTheSameBitsEachTime) {
  NORMA_NEEDS_GPU();
  if (!device::runs_hopper_kernels()) GTEST_SKIP() << "this GPU has no such kernel";
  const auto own = [](const auto& a) { ASSERT_TRUE(wgmma_attention(a)); };
  // As many tiles as training has.
  for (const Case& c : {Case{16, 1024, 20, 20, 64, true}, Case{1, 8192, 16, 16, 64, true}}) {
    const GpuAttention attention(shape_of(c));
    const Result first = result_of(attention, own);
    for (int i = 0; i < 4; ++i) {
      const Result again = result_of(attention, own);
      ASSERT_TRUE(test::same_bits(again.o.tensor, first.o.tensor)) << c << ", time " << i;
      ASSERT_TRUE(test::same_bits(again.lse.tensor, first.lse.tensor)) << c << ", time " << i;
    }
  }
}

TEST(GpuAttentionWays, CudnnsIsThatForEveryRule) {
  NORMA_NEEDS_GPU();
  for (const Case& c : {Case{2, 256, 4, 4, 64, true},
                        Case{2, 300, 4, 2, 128, false},
                        Case{1, 1024, 2, 2, 96, true}}) {
    AttentionShape shape = shape_of(c);
    shape.uniform_factor = 0.11;
    const GpuAttention attention(shape);
    bool there = true;
    const Result got = result_of(attention, [&](const auto& a) { there = cudnn_attention(a); });
    if (!there) GTEST_SKIP() << "there is no cuDNN that can";
    expect_same(attention, got, result_of(attention, [](const auto& a) { mma_attention(a); }));
  }
}

TEST(GpuAttentionWays, TheChoiceIsMadeOnceAndKept) {
  NORMA_NEEDS_GPU();
  AttentionShape shape = plain_shape(2, 1024, 5, 5, 64, true);
  shape.uniform_factor = 0.125;
  const GpuAttention attention(shape);
  const auto quick = [](const auto& a) { ASSERT_TRUE(quick_attention(a)); };
  const Result got = result_of(attention, quick);
  const std::string choices = device::choices_text();
  if constexpr (device::kBuiltWithCuda) {
    const bool both = device::runs_hopper_kernels() && cudnn_version() != 0;
    EXPECT_EQ(choices.find("|bf16 2 1024 5 5 64 1 968 968 968 328") != std::string::npos, both)
        << choices;
  }
  const Result again = result_of(attention, quick);
  EXPECT_EQ(device::choices_text(), choices);
  EXPECT_TRUE(test::same_bits(again.o.tensor, got.o.tensor));
}

}  // namespace
}  // namespace norma::kernels
