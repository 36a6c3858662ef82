// Attention's gradient on a GPU where one kernel may make all of it, beside that of two kernels.
#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "norma/device/device.h"
#include "norma/kernels/attention.h"

namespace norma::kernels {
namespace {

struct Case {
  Index batch, tokens, heads;
  bool causal;
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.batch << "x" << c.tokens << "x" << c.heads << (c.causal ? " causal" : " full");
}

template <class T>
struct OnDevice {
  explicit OnDevice(std::size_t n)
      : count(n), data(static_cast<T*>(device::allocate(n * sizeof(T)))) {}
  explicit OnDevice(const std::vector<T>& from) : OnDevice(from.size()) {
    device::copy_in(data, from.data(), count * sizeof(T));
  }
  ~OnDevice() { device::release(data); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  std::vector<T> out() const {
    std::vector<T> all(count);
    device::copy_out(all.data(), data, count * sizeof(T));
    return all;
  }
  std::size_t count;
  T* data;
};

/// Sums of four uniform numbers: near enough to normal ones, of spread 1.
std::vector<Bf16> noise(Index count, std::uint64_t seed) {
  std::vector<Bf16> made;
  std::uint64_t state = seed * 0x9E3779B97F4A7C15U + 1;
  for (Index i = 0; i < count; ++i) {
    float sum = 0;
    for (int j = 0; j < 4; ++j) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      sum += static_cast<float>(state >> 40) / static_cast<float>(1 << 24) - 0.5f;
    }
    made.push_back(to_bf16(sum * 1.7320508f));
  }
  return made;
}

/// The columns q, k and v of one matrix with eight more behind them, as a layer has them.
struct Columns {
  OnDevice<Bf16> all;
  Index rows, width, stride;
  Columns(const std::vector<Bf16>& from, Index row_count, Index part_width)
      : all(from), rows(row_count), width(part_width), stride(3 * part_width + 8) {}
  Rows<Bf16> part(Index i) const { return {all.data + i * width, rows, width, stride}; }
};

class GpuAttention : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!device::available()) GTEST_SKIP() << "no GPU here";
    constexpr int kHopper = 9;
    if (device::info().generation != kHopper) GTEST_SKIP() << "this GPU has no such kernel";
  }
};

double spread(const std::vector<Bf16>& values) {
  double sum = 0;
  for (const Bf16 value : values) sum += std::pow(to_float(value), 2);
  return std::sqrt(sum / static_cast<double>(values.size()));
}
double spread_of_gap(const std::vector<Bf16>& a, const std::vector<Bf16>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(to_float(a[i]) - to_float(b[i]), 2);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

TEST_P(GpuAttention, OneKernelMakesTheGradientOfTwo) {
  const Case& c = GetParam();
  constexpr Index kWidth = 64;
  const Index rows = c.batch * c.tokens;
  const Index width = c.heads * kWidth;
  const auto numbers = static_cast<std::size_t>(c.batch * c.heads * c.tokens);
  const AttentionShape shape{.batch = c.batch,
                             .queries = c.tokens,
                             .keys = c.tokens,
                             .key_rows = c.tokens,
                             .heads = c.heads,
                             .kv_heads = c.heads,
                             .head_width = kWidth,
                             .causal = c.causal,
                             .log_length = false,
                             .softcap = 0,
                             .lengths = nullptr,
                             .uniform_factor = 0};
  ASSERT_TRUE(fits_joint_gradient(shape));
  std::vector<float> factors;
  for (Index h = 0; h < c.heads; ++h) factors.push_back(0.1f + 0.02f * static_cast<float>(h % 4));
  const Columns qkv(noise(rows * (3 * width + 8), 1), rows, width);
  const OnDevice<Bf16> dout(noise(rows * width, 2));
  const OnDevice<Bf16> o(static_cast<std::size_t>(rows * width));
  const OnDevice<float> factor(factors);
  const OnDevice<float> lse(numbers);
  const AttentionScratch at = scratch_on_gpu(shape, true);
  const OnDevice<float> scratch(std::vector<float>(static_cast<std::size_t>(at.all)));
  const std::vector<Bf16> nothing(static_cast<std::size_t>(rows * (3 * width + 8)), to_bf16(0.5f));
  const auto gradient = [&](bool joint) {
    const Columns to(nothing, rows, width);
    if constexpr (device::kBuiltWithCuda) {
      run(Cuda{},
          AttentionForward<Bf16>{.shape = shape,
                                 .q = qkv.part(0),
                                 .k = qkv.part(1),
                                 .v = qkv.part(2),
                                 .head_factor = factor.data,
                                 .o = {o.data, rows, width, width},
                                 .lse = lse.data,
                                 .scratch = nullptr});
      run(Cuda{},
          AttentionBackward<Bf16>{.shape = shape,
                                  .q = qkv.part(0),
                                  .k = qkv.part(1),
                                  .v = qkv.part(2),
                                  .head_factor = factor.data,
                                  .o = {o.data, rows, width, width},
                                  .lse = lse.data,
                                  .dout = {dout.data, rows, width, width},
                                  .dq = to.part(0),
                                  .dq_into = Into::set,
                                  .dk = to.part(1),
                                  .dk_into = Into::set,
                                  .dv = to.part(2),
                                  .dv_into = Into::set,
                                  .dhead_factor = nullptr,
                                  .scratch = scratch.data,
                                  .joint = joint});
    }
    return to.all.out();
  };
  const std::vector<Bf16> whole = gradient(true);
  const std::vector<Bf16> again = gradient(true);
  EXPECT_EQ(std::memcmp(whole.data(), again.data(), whole.size() * sizeof(Bf16)), 0);

  // It was that kernel: every tile of keys that a query sees has had its turn.
  const std::vector<float> left = scratch.out();
  for (Index i = 0; i < at.turns; ++i) {
    unsigned turns = 0;
    std::memcpy(&turns, &left[static_cast<std::size_t>(at.turns_at + i)], sizeof turns);
    const Index tiles = c.tokens / kJointTile;
    ASSERT_EQ(turns, static_cast<unsigned>(c.causal ? i / 2 % tiles + 1 : tiles)) << i;
  }

  const std::vector<Bf16> two = gradient(false);
  const Index stride = 3 * width + 8;
  for (Index i = 0; i < 4; ++i) {  // dq, dk, dv, and the columns behind them
    std::vector<Bf16> ours;
    std::vector<Bf16> theirs;
    for (Index r = 0; r < rows; ++r) {
      for (Index col = i * width; col < (i < 3 ? (i + 1) * width : stride); ++col) {
        ours.push_back(whole[static_cast<std::size_t>(r * stride + col)]);
        theirs.push_back(two[static_cast<std::size_t>(r * stride + col)]);
      }
    }
    // Both round probabilities and results, at other places; 1 % would be a mistake.
    constexpr double kMostApart = 0.006;
    EXPECT_LE(spread_of_gap(ours, theirs), i < 3 ? kMostApart * spread(theirs) : 0) << "part " << i;
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
                                         Case{2, 2048, 3, true}));

}  // namespace
}  // namespace norma::kernels
