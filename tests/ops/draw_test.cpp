#include "norma/ops/draw.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "norma/device/device.h"
#include "norma/ops/dispatch.h"
#include "norma/tensor/buffer.h"
#include "norma/tensor/plain.h"
#include "tests/support/needs_gpu.h"

namespace norma {
namespace {

constexpr RandomKey kKey{.seed = 5, .stream = 77};
constexpr Index kCount = 200'001;  // odd: the last pair has one element

std::vector<double> drawn(const DrawRule& rule, Device device, DType dtype = DType::f32) {
  const OwnedTensor there({kCount}, dtype, device);
  draw(there.tensor, rule, kKey);
  const OwnedTensor home = host_copy(there.tensor);
  std::vector<double> values;
  for (Index i = 0; i < kCount; ++i) values.push_back(value_at(home.tensor, 0, i));
  return values;
}

struct Moments {
  double mean = 0;
  double deviation = 0;
  double largest = 0;
};
Moments moments(const std::vector<double>& values) {
  Moments of;
  const auto count = static_cast<double>(values.size());
  for (const double v : values) of.mean += v / count;
  for (const double v : values) {
    of.deviation += (v - of.mean) * (v - of.mean) / count;
    of.largest = std::max(of.largest, std::abs(v));
  }
  of.deviation = std::sqrt(of.deviation);
  return of;
}

TEST(Draw, UniformFillsItsBounds) {
  const Moments of = moments(drawn({.bound = 0.3}, {}));
  EXPECT_NEAR(of.mean, 0, 0.002);
  EXPECT_NEAR(of.deviation, 0.3 / std::sqrt(3.0), 0.001);
  EXPECT_LE(of.largest, 0.3);
  EXPECT_GT(of.largest, 0.2999);
}

TEST(Draw, NormalHasItsDeviation) {
  const Moments of = moments(drawn({.deviation = 0.02}, {}));
  EXPECT_NEAR(of.mean, 0, 0.0002);
  EXPECT_NEAR(of.deviation, 0.02, 0.0001);
  EXPECT_GT(of.largest, 4 * 0.02);
}

TEST(Draw, ACutNormalStaysWithin) {
  const Moments of = moments(drawn({.deviation = 0.02, .cut = 2}, {}));
  EXPECT_LE(of.largest, 0.04f);
  // The deviation of a standard normal that is cut at 2.
  EXPECT_NEAR(of.deviation, 0.02 * 0.8796, 0.0001);
}

TEST(Draw, TheReferenceDrawsTheSameBits) {
  for (const DrawRule& rule : {DrawRule{.bound = 0.3}, DrawRule{.deviation = 1, .cut = 2}}) {
    const std::vector<double> quick = drawn(rule, {});
    use_reference_kernels(true);
    EXPECT_EQ(drawn(rule, {}), quick);
    use_reference_kernels(false);
  }
}

TEST(GpuDraw, IsTheCpusButForAFewLastBits) {
  NORMA_NEEDS_GPU();
  const Device gpu{DeviceKind::cuda};
  EXPECT_EQ(drawn({.bound = 0.3}, gpu), drawn({.bound = 0.3}, {}));
  for (const double cut : {0.0, 2.0}) {
    const DrawRule rule{.deviation = 0.02, .cut = cut};
    const std::vector<double> here = drawn(rule, {});
    const std::vector<double> there = drawn(rule, gpu);
    int differ = 0;
    for (std::size_t i = 0; i < here.size(); ++i) {
      differ += here[i] != there[i];
      ASSERT_NEAR(there[i], here[i], std::abs(here[i]) * 1.2e-7) << i;
    }
    EXPECT_LT(differ, 20) << cut;
    const Moments rounded = moments(drawn(rule, gpu, DType::bf16));
    EXPECT_NEAR(rounded.deviation, moments(here).deviation, 0.0001);
  }
}

}  // namespace
}  // namespace norma
