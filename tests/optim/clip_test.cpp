#include "norma/optim/clip.h"

#include <cmath>

#include <gtest/gtest.h>

#include "norma/base/threads.h"
#include "norma/tensor/plain.h"
#include "tests/support/values.h"

namespace norma {
namespace {

/// Two parameters with a gap between them, gradients normal.
struct Model {
  explicit Model(DType dtype, Index large = 30011) {
    params.add({"a", {7}, {}});
    params.add({"b", {large}, {}});
    params.allocate(dtype);
    std::uint64_t stream = 1;
    for (const Param& param : params.params()) test::fill_normal(params.grad(param), stream++);
  }
  double norm_by_hand() const {
    double sum = 0;
    for (const Param& param : params.params())
      sum += test::dot(params.grad(param), params.grad(param));
    return std::sqrt(sum);
  }
  ParamStore params;
};

TEST(Clip, TheGlobalNormIsOverAllParameters) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Model model(dtype);
    const double limit = dtype == DType::f32 ? 2e-6 : 1e-13;
    EXPECT_NEAR(
        GlobalNorm(model.params)(model.params), model.norm_by_hand(), limit * model.norm_by_hand());
  }
}

TEST(Clip, TheGlobalNormByHand) {
  ParamStore params;
  params.add({"a", {1}, {}});
  params.add({"b", {2, 1}, {}});
  params.allocate(DType::f32);
  set_value(params.grad(params.find("a")), 0, 0, 2);
  set_value(params.grad(params.find("b")), 0, 0, -3);
  set_value(params.grad(params.find("b")), 1, 0, 6);
  EXPECT_DOUBLE_EQ(GlobalNorm(params)(params), 7);
}

TEST(Clip, OneAndTwoThreadsGiveTheSameBits) {
  const Model model(DType::f32, 300007);
  const GlobalNorm norm(model.params);
  const ThreadScope one(1);
  const double alone = norm(model.params);
  const ThreadScope two(2);
  EXPECT_EQ(norm(model.params), alone);
}

TEST(Clip, TheFactorShrinksOnlyWhatIsTooLong) {
  EXPECT_EQ(clip_factor(0.5, 1), 1);
  EXPECT_EQ(clip_factor(0, 1), 1);
  EXPECT_NEAR(clip_factor(4, 1), 0.25, 1e-6);
  EXPECT_NEAR(clip_factor(10, 2.5), 0.25, 1e-6);
  EXPECT_EQ(clip_factor(1e9, 0), 1);  // 0 switches clipping off
}

TEST(Clip, TheClippedNormIsAtMostTheBound) {
  const Model model(DType::f32);
  const GlobalNorm norm(model.params);
  for (const double bound : {1e-3, 1.0, 100.0}) {
    const double factor = clip_factor(norm(model.params), bound);
    scale(model.params.grads(), factor);
    EXPECT_LE(norm(model.params), bound * (1 + 1e-6));
    EXPECT_GE(norm(model.params), 0.99 * std::min(bound, model.norm_by_hand()));
    const Model again(DType::f32);
    copy(again.params.grads(), model.params.grads());
  }
}

TEST(Clip, AnInfiniteNormClipsToNothingAndNaNIsVisible) {
  EXPECT_EQ(clip_factor(INFINITY, 1), 0);
  // NaN must not turn into a harmless-looking step: the caller sees the norm itself.
  Model model(DType::f32);
  set_value(model.params.grads(), 0, 3, std::nan(""));
  EXPECT_TRUE(std::isnan(GlobalNorm(model.params)(model.params)));
}

}  // namespace
}  // namespace norma
