// Attention's gradient on a GPU: where one kernel may make all of it, beside that of two kernels;
// and the same bits whatever lies where it writes.
#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "norma/kernels/attention.h"
#include "norma/tensor/plain.h"
#include "tests/support/expect.h"
#include "tests/support/needs_gpu.h"
#include "tests/support/values.h"

namespace norma::kernels {
namespace {

constexpr Device kGpu{DeviceKind::cuda};

struct Case {
  Index batch, tokens, heads;
  bool causal;
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.batch << "x" << c.tokens << "x" << c.heads << (c.causal ? " causal" : " full");
}

OwnedTensor sent(const Tensor& from) {
  OwnedTensor there(from.shape, from.dtype, kGpu);
  copy(from, there.tensor);
  return there;
}

/// q, k and v as a layer has them: columns of one matrix, which has eight more behind them.
constexpr Index kBehind = 8;
Rows<Bf16> part(const OwnedTensor& all, Index i) {
  const Index width = (all.tensor.shape.cols() - kBehind) / 3;
  return {
      all.tensor.as<Bf16>() + i * width, all.tensor.shape.rows(), width, all.tensor.shape.cols()};
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
  const Index rows = c.batch * c.tokens;
  const Index width = c.heads * kJointWidth;
  const AttentionShape shape{.batch = c.batch,
                             .queries = c.tokens,
                             .keys = c.tokens,
                             .key_rows = c.tokens,
                             .heads = c.heads,
                             .kv_heads = c.heads,
                             .head_width = kJointWidth,
                             .causal = c.causal,
                             .log_length = false,
                             .softcap = 0,
                             .lengths = nullptr,
                             .uniform_factor = 0};
  ASSERT_TRUE(fits_joint_gradient(shape));
  const OwnedTensor factors({c.heads}, DType::f32);
  for (Index h = 0; h < c.heads; ++h) {
    set_value(factors.tensor, 0, h, 0.1 + 0.02 * static_cast<double>(h % 4));
  }
  const Shape all_columns{rows, 3 * width + kBehind};
  const OwnedTensor factor = sent(factors.tensor);
  const OwnedTensor qkv = sent(test::normals(all_columns, DType::bf16, 1).tensor);
  const OwnedTensor dout = sent(test::normals({rows, width}, DType::bf16, 2).tensor);
  const OwnedTensor o({rows, width}, DType::bf16, kGpu);
  const OwnedTensor lse({c.batch, c.heads, c.tokens}, DType::f32, kGpu);
  const AttentionScratch at = scratch_on_gpu(shape, true);
  const OwnedTensor scratch({at.all}, DType::f32, kGpu);
  const Rows<Bf16> q = part(qkv, 0);
  const Rows<Bf16> k = part(qkv, 1);
  const Rows<Bf16> v = part(qkv, 2);
  const Rows<Bf16> o_rows{o.tensor.as<Bf16>(), rows, width, width};
  if constexpr (device::kBuiltWithCuda) {
    run(Cuda{},
        AttentionForward<Bf16>{.shape = shape,
                               .q = q,
                               .k = k,
                               .v = v,
                               .head_factor = factor.tensor.as<float>(),
                               .o = o_rows,
                               .lse = lse.tensor.as<float>(),
                               .scratch = nullptr});
  }
  const auto gradient = [&](bool joint) {
    const OwnedTensor to(all_columns, DType::bf16, kGpu);
    fill(to.tensor, 0.5);
    if constexpr (device::kBuiltWithCuda) {
      run(Cuda{},
          AttentionBackward<Bf16>{.shape = shape,
                                  .q = q,
                                  .k = k,
                                  .v = v,
                                  .head_factor = factor.tensor.as<float>(),
                                  .o = o_rows,
                                  .lse = lse.tensor.as<float>(),
                                  .dout = {dout.tensor.as<Bf16>(), rows, width, width},
                                  .dq = part(to, 0),
                                  .dq_into = Into::set,
                                  .dk = part(to, 1),
                                  .dk_into = Into::set,
                                  .dv = part(to, 2),
                                  .dv_into = Into::set,
                                  .dhead_factor = nullptr,
                                  .scratch = scratch.tensor.as<float>(),
                                  .joint = joint});
    }
    return host_copy(to.tensor);
  };
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
    for (Index r = 0; r < rows; ++r) {
      for (Index col = i * width; col < (i < 3 ? (i + 1) * width : all_columns.cols()); ++col) {
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
                                         // more tiles of a head at work than a warp has lanes
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

TEST_P(GpuAttentionWidths, GradientDoesNotDependOnWhatLaysThere) {
  const WidthCase& c = GetParam();
  constexpr Index kBatch = 3;
  const Index rows = kBatch * c.tokens;
  const Index width = c.heads * c.width;
  const Index kv_width = c.kv_heads * c.width;
  const AttentionShape shape{.batch = kBatch,
                             .queries = c.tokens,
                             .keys = c.tokens,
                             .key_rows = c.tokens,
                             .heads = c.heads,
                             .kv_heads = c.kv_heads,
                             .head_width = c.width,
                             .causal = c.causal,
                             .log_length = false,
                             .softcap = 0,
                             .lengths = nullptr,
                             .uniform_factor = 0};
  const OwnedTensor factor({c.heads}, DType::f32, kGpu);
  fill(factor.tensor, 0.2);
  const OwnedTensor q = sent(test::normals({rows, width}, DType::bf16, 1).tensor);
  const OwnedTensor k = sent(test::normals({rows, kv_width}, DType::bf16, 2).tensor);
  const OwnedTensor v = sent(test::normals({rows, kv_width}, DType::bf16, 3).tensor);
  const OwnedTensor dout = sent(test::normals({rows, width}, DType::bf16, 4).tensor);
  const OwnedTensor o({rows, width}, DType::bf16, kGpu);
  const OwnedTensor lse({kBatch, c.heads, c.tokens}, DType::f32, kGpu);
  const auto whole = [](const OwnedTensor& of) {
    const Shape& s = of.tensor.shape;
    return Rows<Bf16>{of.tensor.as<Bf16>(), s.rows(), s.cols(), s.cols()};
  };
  if constexpr (device::kBuiltWithCuda) {
    run(Cuda{},
        AttentionForward<Bf16>{.shape = shape,
                               .q = whole(q),
                               .k = whole(k),
                               .v = whole(v),
                               .head_factor = factor.tensor.as<float>(),
                               .o = whole(o),
                               .lse = lse.tensor.as<float>(),
                               .scratch = nullptr});
  }
  std::vector<OwnedTensor> made[2];
  for (int i = 0; i < 2; ++i) {
    const OwnedTensor scratch({scratch_on_gpu(shape, false).all}, DType::f32, kGpu);
    fill(scratch.tensor, i == 0 ? std::nan("") : -3.0);
    OwnedTensor dq({rows, width}, DType::bf16, kGpu);
    OwnedTensor dk({rows, kv_width}, DType::bf16, kGpu);
    OwnedTensor dv({rows, kv_width}, DType::bf16, kGpu);
    for (const OwnedTensor* to : {&dq, &dk, &dv}) fill(to->tensor, i == 0 ? std::nan("") : 7.0);
    if constexpr (device::kBuiltWithCuda) {
      run(Cuda{},
          AttentionBackward<Bf16>{.shape = shape,
                                  .q = whole(q),
                                  .k = whole(k),
                                  .v = whole(v),
                                  .head_factor = factor.tensor.as<float>(),
                                  .o = whole(o),
                                  .lse = lse.tensor.as<float>(),
                                  .dout = whole(dout),
                                  .dq = whole(dq),
                                  .dq_into = Into::set,
                                  .dk = whole(dk),
                                  .dk_into = Into::set,
                                  .dv = whole(dv),
                                  .dv_into = Into::set,
                                  .dhead_factor = nullptr,
                                  .scratch = scratch.tensor.as<float>(),
                                  .joint = false});
    }
    for (const OwnedTensor* to : {&dq, &dk, &dv}) made[i].push_back(host_copy(to->tensor));
  }
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(test::same_bits(made[1][i].tensor, made[0][i].tensor)) << "part " << i;
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
