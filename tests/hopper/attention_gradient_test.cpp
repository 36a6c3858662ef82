// Attention's gradient by the kernels for Hopper that have one side each, run on the host, beside
// the formula. The kernel that makes all of it waits for other blocks, which this machine runs one
// after the other.
#include <gtest/gtest.h>

#include "norma/kernels/cuda/attention_wgmma_joint.cuh"
#include "norma/kernels/cuda/attention_wgmma_keys.cuh"
#include "norma/kernels/cuda/attention_wgmma_queries.cuh"
#include "tests/hopper/host_attention.h"

namespace norma::kernels {
namespace {

/// dq, dk and dv as columns of one matrix, and each row's share in the gradient of its head's
/// factor.
struct Gradients {
  std::vector<double> qkv;
  std::vector<double> shares;
};

class Gradient {
 public:
  explicit Gradient(const HostAttentionCase& c)
      : host_(c),
        dout_(host_.rows(), c.heads * c.width),
        got_(host_.rows(), (c.heads + 2 * c.kv_heads) * c.width),
        lse_(count()),
        scratch_(2 * count(), NAN) {
    dout_.draw(8);
    work_out();
  }

  /// By two kernels.
  template <int kWidth>
  void run(hopper::When when, std::uint64_t seed) {
    const HostAttentionCase& c = host_.of;
    const wgmma::Maps maps = this->maps();
    AttentionBackward<Bf16> a = arguments();
    float wanted = 0;
    a.dhead_factor = &wanted;  // the shares are
    const auto launch = [&](Index heads, const auto& kernel) {
      const wgmma::Walk walk = wgmma::walk_of(heads, c.tokens, c.causal);
      hopper::run({.blocks = static_cast<unsigned>(wgmma::blocks_of(walk)),
                   .threads = wgmma::kThreads,
                   .when = when,
                   .seed = seed},
                  [&] { kernel(walk); });
    };
    static_assert(wgmma::Plan<kWidth>::kBytes <= hopper::kSharedBytes);
    launch(c.batch * c.kv_heads,
           [&](const wgmma::Walk& walk) { wgmma::keys_kernel<kWidth>(maps, a, walk); });
    launch(c.batch * c.heads,
           [&](const wgmma::Walk& walk) { wgmma::queries_kernel<kWidth>(maps, a, walk); });
  }

  /// By one, with so many blocks at work.
  void run_joint(int workers, hopper::When when, std::uint64_t seed) {
    const HostAttentionCase& c = host_.of;
    const wgmma::Maps maps = this->maps();
    const AttentionBackward<Bf16> a = arguments();
    const AttentionScratch at = scratch_on_gpu(a.shape, true);
    std::vector<float> sums(static_cast<std::size_t>(at.turns_at - at.sums_at), NAN);
    std::vector<unsigned> turns(static_cast<std::size_t>(at.turns));
    const JointWalk walk{.heads = static_cast<int>(c.batch * c.heads),
                         .tiles = static_cast<int>(c.tokens / kJointTile),
                         .set = 2,
                         .workers = workers,
                         .causal = c.causal};
    const JointSchedule schedule = joint_schedule(walk);
    const wgmma::JointWork work{.walk = walk,
                                .tiles = schedule.tiles.data(),
                                .begins = schedule.begins.data(),
                                .turns = schedule.turns.data()};
    const auto kernel = c.causal ? wgmma::joint_kernel<true> : wgmma::joint_kernel<false>;
    static_assert(wgmma::JointPlan::kBytes <= hopper::kSharedBytes);
    hopper::run({.blocks = static_cast<unsigned>(workers),
                 .threads = wgmma::kThreads,
                 .when = when,
                 .seed = seed,
                 .together = true},
                [&] { kernel(maps, a, work, {.dq = sums.data(), .turns = turns.data()}); });
  }

  const HostRows& got() const { return got_; }

  void expect_right() const {
    const HostAttentionCase& c = host_.of;
    for (Index part = 0; part < 3; ++part) {
      const Index begin = part == 0 ? 0 : part == 1 ? host_.k_column(0) : host_.v_column(0);
      const Index end = begin + (part == 0 ? c.heads : c.kv_heads) * c.width;
      Gap gap;
      for (Index r = 0; r < host_.rows(); ++r) {
        for (Index column = begin; column < end; ++column) {
          gap.add(got_.at(r, column), wanted_.qkv[at(r, column)]);
        }
      }
      // P, dS and the results are rounded to bf16.
      EXPECT_LE(gap.relative(), 6e-3) << "part " << part;
    }
    EXPECT_TRUE(got_.is_untouched_behind());
  }
  void expect_shares_right() const {
    Gap gap;
    for (std::size_t i = 0; i < count(); ++i) gap.add(scratch_[count() + i], wanted_.shares[i]);
    EXPECT_LE(gap.relative(), 6e-3);
  }

 private:
  wgmma::Maps maps() {
    const HostAttentionCase& c = host_.of;
    return {.q = host_.map(host_.qkv, host_.q_column(0), c.heads),
            .k = host_.map(host_.qkv, host_.k_column(0), c.kv_heads),
            .v = host_.map(host_.qkv, host_.v_column(0), c.kv_heads),
            .dout = host_.map(dout_, 0, c.heads)};
  }
  AttentionBackward<Bf16> arguments() {
    const HostAttentionCase& c = host_.of;
    AttentionBackward<Bf16> a{};
    a.shape = host_.shape();
    a.head_factor = host_.factors.data();
    a.lse = lse_.data();
    a.scratch = scratch_.data();
    a.dq = got_.part(host_.q_column(0), c.heads * c.width);
    a.dk = got_.part(host_.k_column(0), c.kv_heads * c.width);
    a.dv = got_.part(host_.v_column(0), c.kv_heads * c.width);
    a.dq_into = a.dk_into = a.dv_into = Into::set;
    return a;
  }
  std::size_t count() const {
    return static_cast<std::size_t>(host_.of.batch * host_.of.heads * host_.of.tokens);
  }
  Index columns() const { return (host_.of.heads + 2 * host_.of.kv_heads) * host_.of.width; }
  std::size_t at(Index row, Index column) const {
    return static_cast<std::size_t>(row * columns() + column);
  }

  /// lse and <dout, o>, which the kernels read, and what they shall make of them.
  void work_out() {
    const HostAttentionCase& c = host_.of;
    wanted_.qkv.resize(static_cast<std::size_t>(host_.rows() * columns()));
    wanted_.shares.resize(count());
    for (Index b = 0; b < c.batch; ++b) {
      for (Index h = 0; h < c.heads; ++h) {
        for (Index i = 0; i < c.tokens; ++i) work_out_row(b, h, i);
      }
    }
  }
  void work_out_row(Index b, Index h, Index i) {
    const HostAttentionCase& c = host_.of;
    const Index kv = host_.kv_of(h);
    const Index row = host_.row(b, i);
    const double factor = host_.factors[static_cast<std::size_t>(h)];
    const HostAttention::Softmax soft = host_.softmax(b, h, i);
    const auto dout = [&](Index column) { return dout_.at(row, h * c.width + column); };
    double delta = 0;
    for (Index k = 0; k < c.width; ++k) delta += dout(k) * host_.o(soft, b, h, k);
    lse_[host_.place(b, h, i)] = static_cast<float>(soft.lse);
    scratch_[host_.place(b, h, i)] = static_cast<float>(delta);
    for (std::size_t j = 0; j < soft.p.size(); ++j) {
      const Index key = host_.row(b, static_cast<Index>(j));
      double dp = 0;
      for (Index k = 0; k < c.width; ++k) dp += dout(k) * host_.qkv.at(key, host_.v_column(kv) + k);
      const double ds = soft.p[j] * (dp - delta);
      wanted_.shares[host_.place(b, h, i)] += ds * host_.dot(b, h, i, static_cast<Index>(j));
      for (Index k = 0; k < c.width; ++k) {
        const Index q = host_.q_column(h) + k;
        const Index key_column = host_.k_column(kv) + k;
        wanted_.qkv[at(row, q)] += factor * ds * host_.qkv.at(key, key_column);
        wanted_.qkv[at(key, key_column)] += factor * ds * host_.qkv.at(row, q);
        wanted_.qkv[at(key, host_.v_column(kv) + k)] += soft.p[j] * dout(k);
      }
    }
  }

  HostAttention host_;
  HostRows dout_;
  HostRows got_;
  std::vector<float> lse_;
  std::vector<float> scratch_;
  Gradients wanted_;
};

class HopperAttentionGradient : public testing::TestWithParam<HostAttentionCase> {};

TEST_P(HopperAttentionGradient, IsTheFormula) {
  Gradient gradient(GetParam());
  for (const hopper::When when : {hopper::When::at_once, hopper::When::late}) {
    if (GetParam().width <= 64) {
      gradient.run<64>(when, 1);
    } else {
      gradient.run<128>(when, 1);
    }
    gradient.expect_right();
    gradient.expect_shares_right();
  }
}
INSTANTIATE_TEST_SUITE_P(Shapes,
                         HopperAttentionGradient,
                         testing::Values(HostAttentionCase{2, 12, 1, 1, 8, false, 0.3},
                                         HostAttentionCase{1, 128, 2, 2, 64, true, 0.125},
                                         HostAttentionCase{1, 129, 1, 1, 64, false, -0.1},
                                         HostAttentionCase{1, 300, 2, 1, 64, true, 0.1},
                                         HostAttentionCase{1, 200, 1, 1, 32, true, 0.2},
                                         HostAttentionCase{1, 300, 2, 1, 128, true, 0.1},
                                         HostAttentionCase{1, 130, 1, 1, 96, false, 0.1}));

class HopperJointGradient : public testing::TestWithParam<HostAttentionCase> {};

TEST_P(HopperJointGradient, IsTheFormulaAndHasTheSameBitsWhoeverIsQuick) {
  Gradient first(GetParam());
  first.run_joint(3, hopper::When::at_once, 1);
  first.expect_right();
  for (const hopper::When when : {hopper::When::at_once, hopper::When::late}) {
    Gradient again(GetParam());
    again.run_joint(3, when, 2);
    EXPECT_TRUE(again.got() == first.got());
  }
}
INSTANTIATE_TEST_SUITE_P(Shapes,
                         HopperJointGradient,
                         testing::Values(HostAttentionCase{1, 128, 1, 1, 64, true, 0.125},
                                         // tiles of one worker that begin at different places
                                         HostAttentionCase{1, 384, 3, 3, 64, true, 0.125},
                                         HostAttentionCase{2, 256, 1, 1, 64, false, -0.1}));

}  // namespace
}  // namespace norma::kernels
