// Attention's kernel for Hopper, run on the host, beside the formula.
#include <gtest/gtest.h>

#include "norma/kernels/cuda/attention_wgmma_forward.cuh"
#include "tests/hopper/host_attention.h"

namespace norma::kernels {
namespace {

template <int kWidth>
void compare(const HostAttentionCase& c, hopper::When when, std::uint64_t seed) {
  HostAttention host(c);
  HostRows o(host.rows(), c.heads * c.width);
  std::vector<float> lse(static_cast<std::size_t>(c.batch * c.heads * c.tokens), NAN);
  const wgmma::ForwardMaps maps{.q = host.map(host.qkv, host.q_column(0), c.heads),
                                .k = host.map(host.qkv, host.k_column(0), c.kv_heads),
                                .v = host.map(host.qkv, host.v_column(0), c.kv_heads),
                                .o = host.map(o, 0, c.heads)};
  AttentionForward<Bf16> a{};
  a.shape = host.shape();
  a.head_factor = host.factors.data();
  a.lse = lse.data();
  const wgmma::Walk walk = wgmma::walk_of(c.batch * c.heads, c.tokens, c.causal);
  static_assert(wgmma::ForwardPlan<kWidth>::kBytes <= hopper::kSharedBytes);
  hopper::run({.blocks = static_cast<unsigned>(wgmma::blocks_of(walk)),
               .threads = wgmma::kThreads,
               .when = when,
               .seed = seed},
              [&] { wgmma::forward_kernel<kWidth>(maps, a, walk); });
  Gap gap;
  for (Index b = 0; b < c.batch; ++b) {
    for (Index h = 0; h < c.heads; ++h) {
      for (Index i = 0; i < c.tokens; ++i) {
        const HostAttention::Softmax soft = host.softmax(b, h, i);
        ASSERT_NEAR(lse[host.place(b, h, i)], soft.lse, 1e-4) << b << " " << h << " " << i;
        for (Index column = 0; column < c.width; ++column) {
          gap.add(o.at(host.row(b, i), h * c.width + column), host.o(soft, b, h, column));
        }
      }
    }
  }
  EXPECT_LE(gap.relative(), 4e-3);  // P and o are rounded to bf16
  EXPECT_TRUE(o.is_untouched_behind());
}

class HopperAttention : public testing::TestWithParam<HostAttentionCase> {};

TEST_P(HopperAttention, IsTheFormula) {
  for (const hopper::When when : {hopper::When::at_once, hopper::When::late}) {
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
      if (GetParam().width <= 64) {
        compare<64>(GetParam(), when, seed);
      } else {
        compare<128>(GetParam(), when, seed);
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Shapes,
                         HopperAttention,
                         testing::Values(HostAttentionCase{1, 1, 1, 1, 64, true, 0.1},
                                         HostAttentionCase{2, 12, 1, 1, 8, false, 0.3},
                                         HostAttentionCase{1, 128, 2, 2, 64, true, 0.125},
                                         HostAttentionCase{1, 129, 1, 1, 64, false, 0.1},
                                         HostAttentionCase{2, 300, 2, 1, 64, true, -0.1},
                                         HostAttentionCase{1, 300, 1, 1, 64, false, 0.0},
                                         HostAttentionCase{1, 400, 1, 1, 32, true, 0.2},
                                         HostAttentionCase{1, 128, 1, 1, 128, true, 0.1},
                                         HostAttentionCase{2, 300, 2, 1, 128, true, 0.1},
                                         HostAttentionCase{1, 300, 1, 1, 96, false, -0.1}));

}  // namespace
}  // namespace norma::kernels
