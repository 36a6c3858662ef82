// Attention's kernel for Hopper, run on the host, beside the formula.
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "norma/kernels/cuda/attention_wgmma_forward.cuh"

namespace norma {

int device::multiprocessors() { return 2; }  // several tiles for each

namespace kernels {
namespace {

struct Case {
  Index batch, tokens, heads, kv_heads, width;
  bool causal;
  double factor;  // of the first head; the next ones have a little more
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.batch << "x" << c.tokens << "x" << c.heads << "x" << c.kv_heads << "x" << c.width
             << (c.causal ? " causal " : " full ") << c.factor;
}

/// q, k and v are columns of one matrix, as a layer has them; o has some columns behind it.
class Attention {
 public:
  static constexpr Index kBehind = 8;

  explicit Attention(const Case& c)
      : case_(c),
        stride_((c.heads + 2 * c.kv_heads) * c.width),
        qkv_(size(c.batch * c.tokens * stride_)),
        o_(size(c.batch * c.tokens * (c.heads * c.width + kBehind)), to_bf16(7)),
        lse_(size(c.batch * c.heads * c.tokens), NAN),
        factors_(size(c.heads)) {
    std::mt19937_64 random(7);
    std::normal_distribution<float> normal;
    for (Bf16& one : qkv_) one = to_bf16(normal(random));
    for (std::size_t h = 0; h < factors_.size(); ++h) {
      factors_[h] = static_cast<float>(c.factor * (1 + 0.1 * static_cast<double>(h)));
    }
  }

  template <int kWidth>
  void run(hopper::When when, std::uint64_t seed) {
    const AttentionShape shape{.batch = case_.batch,
                               .queries = case_.tokens,
                               .keys = case_.tokens,
                               .key_rows = case_.tokens,
                               .heads = case_.heads,
                               .kv_heads = case_.kv_heads,
                               .head_width = case_.width,
                               .causal = case_.causal,
                               .log_length = false,
                               .softcap = 0,
                               .lengths = nullptr,
                               .uniform_factor = 0};
    const wgmma::ForwardMaps maps{
        .q = map(qkv_.data(), case_.heads, stride_),
        .k = map(qkv_.data() + case_.heads * case_.width, case_.kv_heads, stride_),
        .v = map(
            qkv_.data() + (case_.heads + case_.kv_heads) * case_.width, case_.kv_heads, stride_),
        .o = map(o_.data(), case_.heads, o_stride())};
    AttentionForward<Bf16> a{};
    a.shape = shape;
    a.head_factor = factors_.data();
    a.lse = lse_.data();
    const wgmma::Walk walk = wgmma::walk_of(case_.batch * case_.heads, case_.tokens, case_.causal);
    static_assert(wgmma::ForwardPlan<kWidth>::kBytes <= hopper::kSharedBytes);
    hopper::run({.blocks = static_cast<unsigned>(wgmma::blocks_of(walk)),
                 .threads = wgmma::kThreads,
                 .when = when,
                 .seed = seed},
                [&] { wgmma::forward_kernel<kWidth>(maps, a, walk); });
  }

  /// |o - wanted| / |wanted|, and the largest difference of an lse.
  void expect_right() const {
    double gap = 0;
    double all = 0;
    for (Index b = 0; b < case_.batch; ++b) {
      for (Index h = 0; h < case_.heads; ++h) {
        for (Index i = 0; i < case_.tokens; ++i) compare_row(b, h, i, gap, all);
      }
    }
    // P and o are rounded to bf16.
    EXPECT_LE(std::sqrt(gap / all), 4e-3);
    for (Index r = 0; r < case_.batch * case_.tokens; ++r) {
      for (Index c = 0; c < kBehind; ++c) {
        ASSERT_EQ(to_float(o_[size(r * o_stride() + case_.heads * case_.width + c)]), 7);
      }
    }
  }

 private:
  static std::size_t size(Index count) { return static_cast<std::size_t>(count); }
  Index o_stride() const { return case_.heads * case_.width + kBehind; }
  CUtensorMap map(Bf16* data, Index heads, Index stride) const {
    return {.data = data,
            .width = case_.width,
            .heads = heads,
            .rows = case_.tokens,
            .count = case_.batch,
            .stride = stride};
  }
  const Bf16* row(Index b, Index i, Index column) const {
    return qkv_.data() + (b * case_.tokens + i) * stride_ + column;
  }

  void compare_row(Index b, Index h, Index i, double& gap, double& all) const {
    const Index kv = h / (case_.heads / case_.kv_heads);
    const Index seen = case_.causal ? i + 1 : case_.tokens;
    const Bf16* q = row(b, i, h * case_.width);
    std::vector<double> logits(size(seen));
    double most = -INFINITY;
    for (Index j = 0; j < seen; ++j) {
      const Bf16* k = row(b, j, (case_.heads + kv) * case_.width);
      double dot = 0;
      for (Index c = 0; c < case_.width; ++c) dot += double{to_float(q[c])} * to_float(k[c]);
      logits[size(j)] = double{factors_[size(h)]} * dot;
      most = std::max(most, logits[size(j)]);
    }
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit - most);
    ASSERT_NEAR(lse_[size((b * case_.heads + h) * case_.tokens + i)], most + std::log(sum), 1e-4);
    for (Index c = 0; c < case_.width; ++c) {
      double wanted = 0;
      for (Index j = 0; j < seen; ++j) {
        const Bf16* v = row(b, j, (case_.heads + case_.kv_heads + kv) * case_.width);
        wanted += std::exp(logits[size(j)] - most) / sum * to_float(v[c]);
      }
      const double got =
          to_float(o_[size((b * case_.tokens + i) * o_stride() + h * case_.width + c)]);
      gap += (got - wanted) * (got - wanted);
      all += wanted * wanted;
    }
  }

  Case case_;
  Index stride_;
  std::vector<Bf16> qkv_;
  std::vector<Bf16> o_;
  std::vector<float> lse_;
  std::vector<float> factors_;
};

class HopperAttention : public testing::TestWithParam<Case> {};

TEST_P(HopperAttention, IsTheFormula) {
  for (const hopper::When when : {hopper::When::at_once, hopper::When::late}) {
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
      Attention attention(GetParam());
      if (GetParam().width <= 64) {
        attention.run<64>(when, seed);
      } else {
        attention.run<128>(when, seed);
      }
      attention.expect_right();
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Shapes,
                         HopperAttention,
                         testing::Values(Case{1, 1, 1, 1, 64, true, 0.1},
                                         Case{2, 12, 1, 1, 8, false, 0.3},
                                         Case{1, 128, 2, 2, 64, true, 0.125},
                                         Case{1, 129, 1, 1, 64, false, 0.1},
                                         Case{2, 300, 2, 1, 64, true, -0.1},
                                         Case{1, 300, 1, 1, 64, false, 0.0},
                                         Case{1, 400, 1, 1, 32, true, 0.2},
                                         Case{1, 128, 1, 1, 128, true, 0.1},
                                         Case{2, 300, 2, 1, 128, true, 0.1},
                                         Case{1, 300, 1, 1, 96, false, -0.1}));

}  // namespace
}  // namespace kernels
}  // namespace norma
